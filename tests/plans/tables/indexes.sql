-- Indexes: by_ticker (hash), by_ts (sorted: ts, price), by_size (sorted).
SELECT * FROM trades WHERE ticker = 'A';
SELECT * FROM trades WHERE ticker IN ('A', 'B') AND quantity > 5;
SELECT * FROM trades WHERE ticker = 'A' OR ticker = 'B';
SELECT * FROM trades WHERE ts >= TIMESTAMP '2026-01-01 00:00:00' AND ts < TIMESTAMP '2026-02-01 00:00:00';
SELECT * FROM trades WHERE ts BETWEEN TIMESTAMP '2026-01-01 00:00:00' AND TIMESTAMP '2026-02-01 00:00:00';
SELECT ticker, ts FROM trades ORDER BY ts;
SELECT ticker FROM trades ORDER BY ts DESC, price DESC LIMIT 5;
SELECT ticker FROM trades ORDER BY ts DESC NULLS FIRST LIMIT 5;
SELECT ticker FROM trades WHERE quantity > 3 ORDER BY ts LIMIT 5;
SELECT name FROM companies WHERE size > 10 ORDER BY size LIMIT 3;
SELECT name FROM companies WHERE size = ?;
SELECT name FROM companies WHERE size > ?;
SELECT name FROM companies WHERE size + 1 > 10;
