The statements of workflows: sessions in which something was said, as a list shows them.

A page is cut out first, by an index; those that were started as workflows have one of their own.

-- name: workflow_page
SELECT session.id, session."user", standing.state FROM session JOIN standing ON standing.session_id = session.id
WHERE session.tenant = ? AND session.id < ? ORDER BY session.id DESC LIMIT ?;

-- name: workflow_page_without_chats
SELECT session.id, session."user", standing.state FROM session JOIN standing ON standing.session_id = session.id
WHERE session.tenant = ? AND session.id < ? AND session.workflow = 1 ORDER BY session.id DESC LIMIT ?;

The first message is near the beginning of a log. What moves the last activity is near its end: whatever is behind
it are the pieces of one answer.

-- name: workflow_ends
SELECT
    (SELECT body FROM event WHERE session_id = session.id AND type = 'message'
        AND instr(body, '"role":"user"') > 0 AND instr(body, '"content":[]') = 0 ORDER BY position LIMIT 1),
    (SELECT ts FROM event WHERE session_id = session.id AND type = 'run_start' ORDER BY position LIMIT 1),
    (SELECT ts FROM event WHERE session_id = session.id AND (type IN
        ('run_start', 'run_end', 'message', 'ask_user', 'user_answer', 'log', 'warning', 'error')
        OR (type = 'document' AND instr(body, '"action":"removed"') > 0))
        ORDER BY position DESC LIMIT 1)
FROM session WHERE id = ? AND tenant = ?;
