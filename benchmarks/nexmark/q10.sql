-- Log to files: every bid with the day and the minute that name its partition.
SELECT auction, bidder, price, date_time, extra, TO_CHAR(date_time, 'YYYY-MM-DD') AS dt, TO_CHAR(date_time, 'HH24:MI') AS hm
FROM bid
