/* Dead letters of durable mailboxes: they are written to the store with the end
 * of the event, and are there again after a restart, until they are requeued,
 * purged or forgotten. The thread of the mailbox's home. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "kernel/dead.h"
#include "kernel/journal.h"
#include "kernel/record.h"

/* As it lies in the store, little-endian; then the alias and why, each with its
 * NUL, then the event. */
struct stored {
	uint64_t time_ns;
	uint32_t status;
	uint16_t text_size; /* alias and why, with their NULs */
	uint8_t reason, version;
};

enum { VERSION = 1 };

/* Its durable mailbox, if it has one and lives here. */
static struct session *
owner_of(struct sched *s, const struct dead *d)
{
	struct session *t = session_find(s->kernel, d->session);

	return t && atomic_load(&t->home) == s && session_journal(t) ? t : NULL;
}

static uint64_t
key_of(uint64_t no)
{
	return __builtin_bswap64(no);
}

static size_t
text_size(const struct dead *d)
{
	return d->alias_size + strlen(dead_text(d)) + 2;
}

static size_t
put_letter(uint8_t *out, const struct dead *d)
{
	struct stored head = {.time_ns = d->time_ns,
		.status = (uint32_t)d->status,
		.text_size = (uint16_t)text_size(d),
		.reason = d->reason,
		.version = VERSION};
	struct record r = {.time_ns = d->time_ns};

	memcpy(out, &head, sizeof(head));
	memcpy(out + sizeof(head), d->alias, head.text_size);
	return sizeof(head) + head.text_size +
	       record_put(out + sizeof(head) + head.text_size, d->msg, &r);
}

void
dead_store(struct sched *s, struct dead *d)
{
	struct session *t = owner_of(s, d);
	uint64_t no, key;
	uint8_t *bytes;

	/* What the store had no room for would keep it from making some. */
	if (!t || d->status == EVD_STATUS_IO)
		return;
	bytes = FAULT(dead_store) ? NULL
				  : malloc(sizeof(struct stored) +
					    text_size(d) + record_size(d->msg));
	if (!bytes)
		return; /* it is there until the daemon ends */
	no = atomic_fetch_add(&s->kernel->store->next_no, 1);
	key = key_of(no);
	if (!journal_write(t, STORE_DEAD, &key, sizeof(key), bytes,
		    put_letter(bytes, d)))
		d->no = no;
	free(bytes);
}

void
dead_unstore(struct sched *s, struct dead *d)
{
	struct session *t = d->no ? owner_of(s, d) : NULL;
	uint64_t key = key_of(d->no);

	if (t)
		journal_write(t, STORE_DEAD, &key, sizeof(key), NULL, 0);
}

/* Two strings, each with its NUL, and no more. */
static bool
is_sound(const struct stored *head, const char *text, size_t size)
{
	size_t alias = head->text_size <= size ? strnlen(text, head->text_size)
					       : head->text_size;

	return head->version == VERSION && alias + 1 < head->text_size &&
	       alias + 2 +
			       strnlen(text + alias + 1,
				       head->text_size - alias - 1) ==
		       head->text_size &&
	       head->reason > DEAD_NONE && head->reason < DEAD_REASONS;
}

static struct dead *
letter_of(struct sched *s, const uint8_t *data, size_t size, struct msg **m)
{
	const char *text = (const char *)data + sizeof(struct stored);
	struct stored head;
	struct record r;
	struct dead *d;
	size_t used;

	if (size < sizeof(head))
		return NULL;
	memcpy(&head, data, sizeof(head));
	size -= sizeof(head);
	if (!is_sound(&head, text, size) ||
		record_get(&s->pool, (const uint8_t *)text + head.text_size,
			size - head.text_size, &used, m, &r))
		return NULL;
	d = dead_letter_new(text, text + strlen(text) + 1);
	if (!d) {
		*m = msg_free(&s->pool, *m);
		return NULL;
	}
	d->time_ns = head.time_ns;
	d->status = (int)head.status;
	d->reason = head.reason;
	return d;
}

void
dead_restore(struct sched *s, struct session *t, uint64_t no,
	const uint8_t *data, size_t size)
{
	struct msg *m = NULL;
	struct dead *d = letter_of(s, data, size, &m);

	if (!d) {
		log_err("store.damaged", "mailbox=\"%s\" dead-letter=%" PRIu64,
			session_name(t), no);
		return;
	}
	d->no = no;
	d->session = m->to = atomic_load(&t->id);
	m->from = 0;
	dead_keep(s, d, m);
}
