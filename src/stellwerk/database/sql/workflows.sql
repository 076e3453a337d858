The statements of workflows: sessions in which something was said, as a list shows them.

The first message is near the beginning of a log. What moves the last activity is near its end: whatever stands behind
it are the pieces of one answer.

-- name: workflows
SELECT page.id, page.user, page.state,
    (SELECT body FROM event WHERE session_id = page.id AND type = 'message'
        AND instr(body, '"role":"user"') > 0 AND instr(body, '"content":[]') = 0 ORDER BY position LIMIT 1),
    (SELECT ts FROM event WHERE session_id = page.id AND type = 'run_start' ORDER BY position LIMIT 1),
    (SELECT ts FROM event WHERE session_id = page.id AND (type IN
        ('run_start', 'run_end', 'message', 'ask_user', 'user_answer', 'log', 'warning', 'error')
        OR (type = 'document' AND instr(body, '"action":"removed"') > 0))
        ORDER BY position DESC LIMIT 1)
FROM (SELECT session.id, session.user, standing.state FROM session JOIN standing ON standing.session_id = session.id
    WHERE session.tenant = ? AND session.id < ? AND session.workflow >= ? ORDER BY session.id DESC LIMIT ?) AS page
ORDER BY page.id DESC;
