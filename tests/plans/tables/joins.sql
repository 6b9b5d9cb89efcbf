-- Join keys, sides, push-down, outer joins.
SELECT t.ticker, c.name FROM trades t JOIN companies c ON t.ticker = c.__key;
SELECT t.ticker, c.name FROM companies c JOIN trades t ON t.ticker = c.__key;
SELECT t.ticker, c.name FROM trades t, companies c WHERE t.ticker = c.__key AND c.country = 'NL' AND t.quantity > 5;
SELECT t.ticker, c.name FROM trades t LEFT JOIN companies c ON t.ticker = c.__key AND c.size > 5;
SELECT t.ticker, c.name FROM trades t LEFT JOIN companies c ON t.ticker = c.__key WHERE c.country = 'NL';
SELECT t.ticker, c.name FROM trades t LEFT JOIN companies c ON t.ticker = c.__key WHERE c.country IS NULL;
SELECT t.ticker, c.name FROM trades t RIGHT JOIN companies c ON t.ticker = c.__key;
SELECT t.ticker, c.name FROM companies c LEFT JOIN trades t ON t.ticker = c.__key;
SELECT t.ticker, c.name FROM trades t FULL JOIN companies c ON t.ticker = c.__key;
SELECT t.ticker, c.name FROM trades t FULL JOIN companies c ON t.ticker = c.__key WHERE t.quantity > 0;
SELECT t.ticker, c.name FROM trades t JOIN companies c ON t.quantity > c.size;
SELECT t.ticker, c.name FROM trades t CROSS JOIN companies c;
SELECT a.name, b.name FROM companies a JOIN companies b USING (country) WHERE a.__key < b.__key;
SELECT c.name, COUNT(*) FROM trades t JOIN companies c ON t.ticker = c.__key WHERE 100 / t.quantity > 3 GROUP BY c.name;
SELECT e.id, c.name FROM companies c JOIN events e ON e.ticker = c.__key;
