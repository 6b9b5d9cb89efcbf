-- Statements that write.
SINK INTO companies SELECT ticker, ticker, 'NL', 1 FROM trades WHERE quantity > 5;
INSERT INTO companies VALUES ('A', 'Alpha', 'NL', 5);
SINK INTO trades (__key, ticker) VALUES (?, 'A');
UPDATE companies SET size = size + 1 WHERE country = 'NL';
UPDATE companies SET size = size + 1 WHERE __key = 'A';
DELETE FROM companies WHERE size < 3;
DELETE FROM companies WHERE __key = 'A';
DELETE FROM companies;
