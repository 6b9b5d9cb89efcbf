-- Pass through: every bid, unchanged.
SELECT auction, bidder, price, date_time, extra FROM bid
