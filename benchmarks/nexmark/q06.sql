-- Average selling price by seller over the last ten auctions that closed. Runs bounded.
SELECT seller, id, AVG(final) OVER (PARTITION BY seller ORDER BY date_time, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS average
FROM (
    SELECT a.id, a.seller, b.price AS final, b.date_time
    FROM auction AS a
    JOIN bid AS b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
    QUALIFY ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) = 1
) AS closed
