INSERT INTO retired (month, upto, events, at) VALUES (@month, @upto, @events, now())
