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
