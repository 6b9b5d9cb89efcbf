-- Queries whose changes are emitted: what each operator emits, and by which columns rows differ.
SELECT id, amount * 2 FROM events WHERE amount > 10 EMIT CHANGES;
SELECT ticker, COUNT(*), SUM(amount) FROM events WHERE id > 5 GROUP BY ticker HAVING COUNT(*) > 1 EMIT CHANGES;
SELECT DISTINCT ticker FROM events EMIT CHANGES OPTIONS ('epochMillis' = '500');
SELECT n, COUNT(*) FROM (SELECT ticker, COUNT(DISTINCT id) AS n FROM events GROUP BY ticker) c GROUP BY n EMIT CHANGES;
SELECT ticker, COUNT(*) AS n FROM events GROUP BY ticker UNION ALL SELECT name, size FROM companies EMIT CHANGES;
SELECT c.name, COUNT(*) FROM events e JOIN companies c ON e.ticker = c.__key GROUP BY c.name EMIT CHANGES;
SELECT size, COUNT(*) FROM companies GROUP BY size EMIT CHANGES;
SELECT ticker, COUNT(*) AS n FROM events GROUP BY ticker ORDER BY n LIMIT 3 EMIT CHANGES;
SELECT ticker, id FROM events QUALIFY ROW_NUMBER() OVER (PARTITION BY ticker ORDER BY id DESC) = 1 EMIT CHANGES;
SELECT ticker, COUNT(*) AS n FROM events GROUP BY ticker ORDER BY n EMIT CHANGES;
