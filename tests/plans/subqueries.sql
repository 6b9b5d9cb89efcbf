-- IN, EXISTS and scalar subqueries as joins.
SELECT ticker FROM trades WHERE ticker IN (SELECT __key FROM companies WHERE country = 'NL');
SELECT ticker FROM trades WHERE ticker NOT IN (SELECT __key FROM companies);
SELECT ticker FROM trades WHERE ticker IN (SELECT __key FROM companies) OR quantity > 5;
SELECT ticker, ticker IN (SELECT __key FROM companies) AS known FROM trades;
SELECT ticker FROM trades t WHERE EXISTS (SELECT 1 FROM companies c WHERE c.__key = t.ticker AND c.size > t.quantity);
SELECT ticker FROM trades t WHERE NOT EXISTS (SELECT 1 FROM companies c WHERE c.__key = t.ticker);
SELECT ticker FROM trades WHERE EXISTS (SELECT 1 FROM companies WHERE country = 'NL');
SELECT ticker FROM trades WHERE price > (SELECT AVG(price) FROM trades);
SELECT ticker FROM trades WHERE quantity = (SELECT size FROM companies WHERE __key = 'A');
SELECT ticker, COUNT(*) FROM trades GROUP BY ticker HAVING COUNT(*) > (SELECT COUNT(*) FROM companies);
SELECT ticker FROM trades t WHERE ticker IN (SELECT __key FROM companies c WHERE c.size > t.quantity);
SELECT ticker FROM trades t WHERE EXISTS (SELECT 1 FROM companies c WHERE c.__key = t.ticker AND c.country IN (SELECT line FROM lines));
SELECT ticker FROM trades t WHERE quantity > (SELECT MAX(size) FROM companies c WHERE c.__key = t.ticker);
SELECT ticker FROM trades t WHERE EXISTS (SELECT MAX(size) FROM companies c WHERE c.__key = t.ticker);
SELECT t.ticker FROM trades t LEFT JOIN companies c ON t.ticker = c.__key AND c.country IN (SELECT line FROM lines);
