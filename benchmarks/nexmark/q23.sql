-- Bids with their auction and its seller. The joins have no bound in time: bounded, or with unbounded state.
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra, a.item_name, a.category, a.seller, p.name, p.email_address, p.city
FROM bid AS b
JOIN auction AS a ON b.auction = a.id
JOIN person AS p ON a.seller = p.id
