/* Structured log: one line, once to journald with its fields, or to stderr.
 *
 * Any thread: level and output are set before threads are started, and the
 * limit of each site is kept in atomics. Nothing is allocated, and nobody who
 * reads stderr can make a thread wait: a line for which there is no room is
 * left out and counted. */
#include "base/log.h"

#define SD_JOURNAL_SUPPRESS_LOCATION /* the caller's is given instead */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <time.h>
#include <unistd.h>

#include "base/logline.h"

enum {
	LINE_MAX_SIZE = 2048, /* bytes of a line, cut there */
	ENTRY_FIELDS_MAX = 32,
	ENTRY_ROOM = 4096,
};

enum log_level log_level_now = LOG_L_INFO;
static bool to_journal;
static const struct clock_source *log_clock = &clock_system;

/* A line being written. */
struct line {
	enum log_level level;
	uint32_t suppressed;
	size_t head_size; /* of "event ", before the fields */
	char text[LINE_MAX_SIZE];
	char tail[32]; /* how many were suppressed, or "" */
};

/* The fields of one journal entry. */
struct entry {
	size_t n, used;
	struct iovec fields[ENTRY_FIELDS_MAX];
	char room[ENTRY_ROOM];
};

/* Is stderr the socket that journald gave this very process? */
static bool
stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	uintmax_t device, inode;
	struct stat st;
	char *end;

	if (!stream)
		return false;
	device = strtoumax(stream, &end, 10);
	if (*end != ':')
		return false;
	inode = strtoumax(end + 1, &end, 10);
	if (*end != '\0')
		return false;
	return fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device &&
	       st.st_ino == inode;
}

void
log_init(enum log_level level)
{
	log_level_now = level;
	to_journal = stderr_is_journal();
}

void
log_use_clock(const struct clock_source *clock)
{
	log_clock = clock;
}

bool
log_level_from(const char *word, enum log_level *level)
{
	static const struct {
		const char *word;
		enum log_level level;
	} words[] = {
		{"error", LOG_L_ERR},
		{"err", LOG_L_ERR},
		{"warning", LOG_L_WARN},
		{"warn", LOG_L_WARN},
		{"info", LOG_L_INFO},
		{"debug", LOG_L_DEBUG},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i].word, word) == 0) {
			*level = words[i].level;
			return true;
		}
	}
	return false;
}

static bool
site_admits(struct log_site *site, uint32_t *suppressed)
{
	uint64_t second = (clock_now(log_clock) / NS_PER_S + 1) << 32;
	uint64_t told = atomic_load(&site->told), n;

	do {
		n = told >> 32 == second >> 32 ? told & UINT32_MAX : 0;
		if (n >= LOG_BURST) {
			atomic_fetch_add(&site->suppressed, 1);
			return false;
		}
	} while (!atomic_compare_exchange_weak(
		&site->told, &told, second | (n + 1)));
	*suppressed = atomic_exchange(&site->suppressed, 0);
	return true;
}

/* "event key=value ..."; a line that is too long ends in "...". */
static void
line_format(struct line *l, const char *event, const char *format, va_list args)
{
	size_t max = sizeof(l->text);
	int n = snprintf(l->text, max, "%s ", event);
	size_t head = n < 0 ? 0 : (size_t)n < max ? (size_t)n : max - 1;

	l->head_size = head;
	n = vsnprintf(l->text + head, max - head, format, args);
	if (n <= 0)
		l->text[head ? head - 1 : 0] = l->text[head] = '\0';
	else if ((size_t)n >= max - head)
		memcpy(l->text + max - 4, "...", 4);
	logline_clean(l->text);
	l->tail[0] = '\0';
	if (l->suppressed)
		snprintf(l->tail, sizeof(l->tail), " suppressed=%" PRIu32,
			l->suppressed);
}

/* ---- to stderr --------------------------------------------------------- */

/* A pipe that has room has it for PIPE_BUF bytes, which is more than a line;
 * a terminal may be held. */
static bool
stderr_has_room(void)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

	return poll(&p, 1, 0) != 0;
}

/* One write, so that lines of several threads do not mix. What cannot be
 * written is lost: there is nobody to tell. False: there was no room. */
static bool
write_line(const char *prefix, const struct line *l)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

	struct iovec parts[] = {
		{(void *)prefix, strlen(prefix)},
		{(void *)l->text, strlen(l->text)},
		{(void *)l->tail, strlen(l->tail)},
		{(void *)"\n", 1},
	};
	bool room;
	ssize_t n;

	pthread_mutex_lock(&one);
	room = stderr_has_room();
	if (room) {
		do
			n = writev(STDERR_FILENO, parts, 4);
		while (n < 0 && errno == EINTR);
	}
	pthread_mutex_unlock(&one);
	return room;
}

static const char *
level_word(enum log_level level)
{
	switch (level) {
	case LOG_L_ERR:
		return "error";
	case LOG_L_WARN:
		return "warning";
	case LOG_L_INFO:
		return "info";
	case LOG_L_DEBUG:
		return "debug";
	}
	return "info";
}

/* For people who read a terminal or a file: the time of day and the level. */
static bool
send_text(const struct line *l)
{
	uint64_t now = clock_wall(log_clock);
	time_t seconds = (time_t)(now / NS_PER_S);
	unsigned ms = (unsigned)(now % NS_PER_S / NS_PER_MS);
	char prefix[64];
	struct tm tm;

	if (!localtime_r(&seconds, &tm))
		memset(&tm, 0, sizeof(tm));
	snprintf(prefix, sizeof(prefix), "%02d:%02d:%02d.%03u %s ", tm.tm_hour,
		tm.tm_min, tm.tm_sec, ms, level_word(l->level));
	return write_line(prefix, l);
}

/* ---- to journald ------------------------------------------------------- */

/* Claim what was printed at the end of the room as one field. */
static void
entry_claim(struct entry *e, int size)
{
	if (size < 0 || (size_t)size >= sizeof(e->room) - e->used ||
		e->n == ENTRY_FIELDS_MAX)
		return;
	e->fields[e->n++] = (struct iovec){e->room + e->used, (size_t)size};
	e->used += (size_t)size;
}

static void __attribute__((format(printf, 2, 3)))
entry_add(struct entry *e, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(
		e->room + e->used, sizeof(e->room) - e->used, format, args);
	va_end(args);
	entry_claim(e, n);
}

/* EVENTD_KEY=value, with \" and \\ undone in a quoted value. */
static void
entry_add_field(struct entry *e, const struct logline_field *f)
{
	char *p = e->room + e->used;
	size_t room = sizeof(e->room) - e->used, n = 7;
	bool quoted = f->value[-1] == '"';

	if (room <= n + f->key_size + 1 + f->value_size)
		return;
	memcpy(p, "EVENTD_", n);
	for (size_t i = 0; i < f->key_size; i++) {
		char c = f->key[i];

		p[n++] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
	}
	p[n++] = '=';
	for (size_t i = 0; i < f->value_size; i++) {
		const char *v = f->value + i;

		if (quoted && *v == '\\' && i + 1 < f->value_size &&
			(v[1] == '"' || v[1] == '\\'))
			v = f->value + ++i;
		p[n++] = *v;
	}
	entry_claim(e, (int)n);
}

static void
entry_fill(struct entry *e, const struct line *l, const char *event,
	const char *format)
{
	struct logline_field fields[ENTRY_FIELDS_MAX];
	char id[LOGLINE_ID_SIZE];
	size_t n = logline_split(
		format, l->text + l->head_size, fields, ENTRY_FIELDS_MAX);

	logline_message_id(event, id);
	entry_add(e, "MESSAGE=%s%s", l->text, l->tail);
	entry_add(e, "MESSAGE_ID=%s", id);
	entry_add(e, "PRIORITY=%d", (int)l->level);
	entry_add(e, "SYSLOG_IDENTIFIER=eventd");
	entry_add(e, "TID=%d", (int)gettid());
	entry_add(e, "EVENTD_LOG=%s", event);
	for (size_t i = 0; i < n; i++)
		entry_add_field(e, &fields[i]);
	if (l->suppressed)
		entry_add(e, "EVENTD_SUPPRESSED=%" PRIu32, l->suppressed);
}

/* As text with a priority that journald takes off, if it cannot be had. */
static bool
send_journal(const struct line *l, const struct log_site *site,
	const char *event, const char *format)
{
	struct entry e;

	e.n = e.used = 0;
	if (site->file) {
		entry_add(&e, "CODE_FILE=%s", site->file);
		entry_add(&e, "CODE_LINE=%d", site->line);
	}
	entry_fill(&e, l, event, format);
	if (sd_journal_sendv(e.fields, (int)e.n) < 0) {
		char prefix[8];

		snprintf(prefix, sizeof(prefix), "<%d>", (int)l->level);
		return write_line(prefix, l);
	}
	return true;
}

void
log_at(struct log_site *site, enum log_level level, const char *event,
	const char *format, ...)
{
	int saved_errno = errno;
	struct line l;
	va_list args;
	bool sent;

	if (!site_admits(site, &l.suppressed)) {
		errno = saved_errno;
		return;
	}
	l.level = level;
	va_start(args, format);
	line_format(&l, event, format, args);
	va_end(args);
	if (to_journal)
		sent = send_journal(&l, site, event, format);
	else
		sent = send_text(&l);
	if (!sent)
		atomic_fetch_add(&site->suppressed, l.suppressed + 1);
	errno = saved_errno;
}
