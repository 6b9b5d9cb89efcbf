-- Local items: who sells in category 10 from three states. The join has no bound in time, so a stream keeps all of both
-- sides.
SELECT p.name, p.city, p.state, a.id
FROM auction AS a
JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
