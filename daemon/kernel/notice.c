#include "kernel/notice.h"

#include <string.h>

#include "kernel/msg.h"

const char notice_down[] = "_down";
const char notice_name[] = "_name";
const char notice_alias[] = "_alias";
const char notice_child[] = "_child";
const char notice_gap[] = "_gap";
const char notice_high_water[] = "_high_water";
const char notice_low_water[] = "_low_water";
const char notice_stuck[] = "_stuck";
const char notice_returned[] = "_returned";

struct head {
	uint64_t watch, session, lost, from, to;
	uint8_t up;
};

static size_t
room(const char *text)
{
	return text ? strlen(text) + 1 : 1;
}

static uint8_t *
put(uint8_t *out, const char *text)
{
	size_t size = room(text);

	memcpy(out, text ? text : "", size);
	return out + size;
}

struct msg *
notice_new(struct msg_pool *p, const char *event, const struct notice *n)
{
	struct head head = {
		.watch = n->watch,
		.session = n->session,
		.lost = n->lost,
		.from = n->from,
		.to = n->to,
		.up = n->up,
	};
	struct msg *m = msg_new(
		p, &(struct msg_init){
			   .event = event,
			   .event_size = (uint8_t)strlen(event),
			   .event_static = true,
			   .size = (uint32_t)(sizeof(head) + room(n->alias) +
					      room(n->reason) + room(n->text) +
					      room(n->change)),
		   });
	uint8_t *out;

	if (!m)
		return NULL;
	memcpy(m->data, &head, sizeof(head));
	out = put(m->data + sizeof(head), n->alias);
	out = put(out, n->reason);
	out = put(out, n->text);
	put(out, n->change);
	return m;
}

bool
notice_is_name(const char *event)
{
	return !strcmp(event, notice_down) || !strcmp(event, notice_name) ||
	       !strcmp(event, notice_alias) || !strcmp(event, notice_child) ||
	       !strcmp(event, notice_gap) ||
	       !strcmp(event, notice_high_water) ||
	       !strcmp(event, notice_low_water) ||
	       !strcmp(event, notice_stuck) || !strcmp(event, notice_returned);
}

bool
notice_is(const struct msg *m)
{
	return m->event == notice_down || m->event == notice_name ||
	       m->event == notice_alias || m->event == notice_child ||
	       m->event == notice_gap;
}

bool
notice_is_text(const struct msg *m)
{
	return m->event == notice_high_water || m->event == notice_low_water;
}

void
notice_widen(struct msg *m, uint64_t from, uint64_t to, uint64_t lost)
{
	struct head head;

	memcpy(&head, m->data, sizeof(head));
	if (!head.lost)
		head.from = from;
	head.to = to;
	head.lost += lost;
	memcpy(m->data, &head, sizeof(head));
}

void
notice_read(const struct msg *m, struct notice *n)
{
	struct head head;

	memcpy(&head, m->data, sizeof(head));
	n->watch = head.watch;
	n->session = head.session;
	n->lost = head.lost;
	n->from = head.from;
	n->to = head.to;
	n->up = head.up;
	n->alias = (const char *)m->data + sizeof(head);
	n->reason = n->alias + strlen(n->alias) + 1;
	n->text = n->reason + strlen(n->reason) + 1;
	n->change = n->text + strlen(n->text) + 1;
}
