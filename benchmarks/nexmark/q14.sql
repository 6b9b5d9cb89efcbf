-- Calculation: prices in a range, the time of day by name, the letters c in the extra text.
SELECT auction, bidder, CAST(price * 0.908 AS DECIMAL(23, 3)) AS price,
    CASE
        WHEN EXTRACT(HOUR FROM date_time) BETWEEN 8 AND 18 THEN 'dayTime'
        WHEN EXTRACT(HOUR FROM date_time) <= 6 OR EXTRACT(HOUR FROM date_time) >= 20 THEN 'nightTime'
        ELSE 'otherTime'
    END AS bid_time_type,
    date_time, extra, LENGTH(extra) - LENGTH(REPLACE(extra, 'c', '')) AS c_counts
FROM bid
WHERE price * 0.908 > 1000000 AND price * 0.908 < 50000000
