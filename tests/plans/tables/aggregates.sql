-- Groups, DISTINCT, HAVING, ORDER BY with and without LIMIT, set operations.
SELECT ticker, COUNT(*), AVG(price) FROM trades GROUP BY ticker;
SELECT ticker, COUNT(*) AS n FROM trades WHERE quantity > 1 GROUP BY ticker HAVING COUNT(*) > 5 AND ticker > 'A' ORDER BY n DESC LIMIT 10;
SELECT COUNT(DISTINCT ticker), SUM(quantity) FILTER (WHERE price > 10) FROM trades;
SELECT ticker, COUNT(DISTINCT quantity) FROM trades GROUP BY ticker;
SELECT DISTINCT ticker FROM trades;
SELECT ticker FROM (SELECT ticker, COUNT(*) AS n, MAX(price) AS m FROM trades GROUP BY ticker) x;
SELECT ticker, price FROM trades ORDER BY price DESC, ticker;
SELECT ticker, price FROM trades ORDER BY quantity LIMIT ? OFFSET ?;
SELECT ticker FROM trades UNION ALL SELECT __key FROM companies LIMIT 4;
SELECT ticker FROM trades UNION SELECT __key FROM companies;
SELECT ticker FROM trades INTERSECT SELECT __key FROM companies;
SELECT t FROM (SELECT ticker AS t FROM trades EXCEPT ALL SELECT __key FROM companies) x WHERE t > 'A';
WITH big AS (SELECT ticker, quantity FROM trades WHERE quantity > 100) SELECT a.ticker FROM big a JOIN big b ON a.quantity = b.quantity;
