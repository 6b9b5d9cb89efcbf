-- What a stream may do, and the refusal of the rest.
SELECT id, amount * 2 FROM events WHERE amount > 10;
SELECT e.id, c.name FROM events e LEFT JOIN companies c ON e.ticker = c.__key;
SELECT id FROM events LIMIT 5;
SELECT COUNT(*) FROM (SELECT id FROM events LIMIT 5) x;
SELECT v FROM TABLE(GENERATE_STREAM(100));
SELECT ticker, COUNT(*) FROM events GROUP BY ticker;
SELECT DISTINCT ticker FROM events;
SELECT id FROM events ORDER BY id;
SELECT a.id FROM events a JOIN events b ON a.id = b.id;
SELECT c.name FROM companies c LEFT JOIN events e ON e.ticker = c.__key;
SELECT c.name FROM companies c WHERE c.__key IN (SELECT ticker FROM events);
SELECT id FROM events EXCEPT SELECT size FROM companies;
SELECT window_end, ticker, COUNT(*) FROM TABLE(TUMBLE(TABLE(IMPOSE_ORDER(TABLE events, DESCRIPTOR(id), 5)), DESCRIPTOR(id), 10)) GROUP BY window_end, ticker EMIT EVERY INTERVAL '1' SECOND ALLOWED LATENESS 20;
SELECT window_end, ticker, SUM(amount) FROM TABLE(HOP(TABLE(IMPOSE_ORDER(TABLE events, DESCRIPTOR(id), 5)), DESCRIPTOR(id), 10, 2)) WHERE amount > 1 GROUP BY window_end, ticker;
SELECT window_start, COUNT(DISTINCT ticker) FROM TABLE(CUMULATE(TABLE(IMPOSE_ORDER(TABLE events, DESCRIPTOR(id), 5)), DESCRIPTOR(id), 2, 10)) GROUP BY window_start, window_end;
SELECT ticker, window_end, MAX(amount) FROM TABLE(SESSION(TABLE(IMPOSE_ORDER(TABLE events, DESCRIPTOR(id), 5)) PARTITION BY ticker, DESCRIPTOR(id), 10)) GROUP BY ticker, window_end;
SELECT window_end, MAX(n) FROM (SELECT window_end, ticker, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE(IMPOSE_ORDER(TABLE events, DESCRIPTOR(id), 5)), DESCRIPTOR(id), 10)) GROUP BY window_end, ticker) GROUP BY window_end;
