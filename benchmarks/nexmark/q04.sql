-- Average closing price by category: the highest bid of each auction's time, averaged. Changes with each bid, so it runs
-- bounded.
SELECT category, AVG(final) AS average
FROM (
    SELECT a.id, a.category, MAX(b.price) AS final
    FROM auction AS a
    JOIN bid AS b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
    GROUP BY a.id, a.category
) AS closed
GROUP BY category
