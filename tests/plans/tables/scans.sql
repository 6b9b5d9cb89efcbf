-- Filter and projection in the scan, columns read, limits, look-ups by key.
SELECT ticker FROM trades WHERE quantity > 1;
SELECT * FROM companies;
SELECT COUNT(*) FROM trades;
SELECT price * quantity AS total FROM trades WHERE ticker = 'A' AND price * quantity > 100;
SELECT name FROM companies LIMIT 10 OFFSET 5;
SELECT name FROM companies WHERE country = 'NL' LIMIT 10;
SELECT * FROM trades WHERE __key = ?;
SELECT price, quantity + 1 FROM trades WHERE __key = 17;
SELECT * FROM trades WHERE __key = 17 AND quantity > 1;
SELECT 1 + 1 AS two, 'a' AS letter;
SELECT ticker FROM trades WHERE 1 = 2;
SELECT ticker FROM trades WHERE 1 = 1 AND quantity IS NOT NULL;
SELECT t FROM (SELECT ticker AS t, price AS p FROM trades) x WHERE p > 10;
SELECT w FROM lines, UNNEST(words) AS u(w) WHERE w <> '';
SELECT v FROM TABLE(GENERATE_SERIES(1, 100)) WHERE v % 2 = 0;
SELECT id FROM events WHERE amount > 10;
