SELECT member, part, outcome, reason FROM millrace.act_member WHERE act_id = $1
ORDER BY outcome, length(member), member COLLATE "C", part
