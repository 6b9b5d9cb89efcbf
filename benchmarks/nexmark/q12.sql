-- Bids per person and ten seconds. The original has windows of processing time; here they are of event time, so that there is
-- an answer to compare.
SELECT bidder, COUNT(*) AS bid_count, window_start, window_end
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(date_time), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end
