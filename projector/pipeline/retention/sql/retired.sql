SELECT month, max(upto) FROM retired WHERE at <= now() - toIntervalSecond(@age) GROUP BY month
