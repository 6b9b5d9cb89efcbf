-- Currency: prices in euros at a fixed rate.
SELECT auction, bidder, CAST(price * 0.908 AS DECIMAL(23, 3)) AS price, date_time, extra FROM bid
