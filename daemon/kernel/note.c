#include "kernel/note.h"

#include <string.h>

#include "kernel/sched.h"

enum { SPARES = 64 };

static struct msg *
make(struct sched *s, const char *text)
{
	return msg_new(
		&s->pool, &(struct msg_init){.event = "",
				  .event_static = true,
				  .data = text,
				  .size = text ? (uint32_t)strlen(text) : 0});
}

/* One more than what is needed, until there are enough. */
static void
save_one(struct sched *s)
{
	struct msg *spare = make(s, NULL);

	if (!spare)
		return;
	msg_queue_push(&s->spares, spare);
	s->n_spares++;
}

struct msg *
note_new(struct sched *s, const char *text)
{
	struct msg *note = make(s, text);

	if (!note) {
		note = msg_queue_pop(&s->spares);
		s->n_spares -= note != NULL;
	} else if (s->n_spares < SPARES) {
		save_one(s);
	}
	return note;
}

void
notes_deinit(struct sched *s)
{
	struct msg *note;

	while ((note = msg_queue_pop(&s->spares)))
		msg_free(&s->pool, note);
}
