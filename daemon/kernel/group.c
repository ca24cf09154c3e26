/* Groups: sessions without events of their own that supervise others, their
 * members: Kind=group. A member is any session with Group=; a group "a/b" is
 * a member of the group "a". The home's thread. */
#include "kernel/kin.h"
#include "kernel/sched.h"

/* Members are there or will come; those that were held go on. */
static enum session_result
group_start(struct session *s)
{
	kin_join(s);
	team_start_all(s);
	return SESSION_DONE;
}

static enum session_result
group_run(struct session *s, struct msg *m)
{
	(void)s, (void)m;
	return SESSION_UNHANDLED;
}

static void
group_reply(struct session *s, uint64_t token, struct msg *reply)
{
	(void)s, (void)token, (void)reply;
}

static void
group_settled(struct session *s, uint64_t seq, uint32_t size, int status,
	const char *text)
{
	(void)s, (void)seq, (void)size, (void)status, (void)text;
}

/* Members do without it from now on; after a failure they wait for its next
 * start. */
static void
group_stop(struct session *s, bool crashed)
{
	if (crashed || !s->kin)
		return;
	LIST_FOREACH (node, &s->kin->children)
		kin_tell(s, container_of(node, struct child, link)->id,
			KIN_LEAVE, NULL);
}

const struct session_ops group_ops = {
	.kind = "group",
	.start = group_start,
	.run = group_run,
	.reply = group_reply,
	.settled = group_settled,
	.stop = group_stop,
	.renew = team_start_all,
	.keeps_children = true,
};
