/* The table of verbs: see verb.h; that of options is in options.c. Constant,
 * any thread. */
#include "verb.h"

#include <string.h>

const char verb_shells[] = "bash zsh fish";

const unsigned char global_options[] = {
	OPT_SOCKET,
	OPT_USER,
	OPT_SYSTEM,
	OPT_TIMEOUT,
	OPT_JSON,
	OPT_NO_LEGEND,
	OPT_COLOR,
	OPT_QUIET,
	OPT_VERBOSE,
	OPT_HELP,
	OPT_VERSION,
	OPT_END,
};

#define PAYLOAD_HELP                                                          \
	"The payload is DATA, or what --data, --file or - (standard input)\n" \
	"say, or else empty. Words of the form NAME=VALUE and NAME:=JSON\n"   \
	"make a JSON object; to send such text as it stands, use --data.\n"

/* Of events that are due later: one word for each field of a timer. */
#define LATER_OPTIONS                                                   \
	OPT_IN, OPT_AT, OPT_CALENDAR, OPT_EVERY, OPT_ZONE, OPT_MISFIRE, \
		OPT_TIMER_NAME, OPT_SLACK, OPT_CLOCK, OPT_STORED, OPT_VOLATILE

#define PAYLOAD_OPTIONS OPT_DATA, OPT_FILE, OPT_HEX, OPT_BASE64

const struct verb verbs[] = {
	{
		"post",
		"ALIAS EVENT [DATA...]",
		"send an event",
		PAYLOAD_HELP
		"\n"
		"Ends with 0 once the event is accepted, or what --wait says.\n"
		"With --lines or --null and empty input nothing is sent.\n"
		"With --in, --at or --on it is sent later, as by delay.\n",
		{PAYLOAD_OPTIONS, OPT_LINES, OPT_NULL, OPT_WAIT, OPT_NO_WAIT,
			OPT_HEADER, OPT_PRIORITY, OPT_TTL, OPT_KEY,
			OPT_PRINT_ID, LATER_OPTIONS},
		2,
		-1,
		{COMPLETE_ALIAS, COMPLETE_NOTHING},
		verb_post,
	},
	{
		"call",
		"ALIAS EVENT [DATA...]",
		"send an event and print the reply",
		PAYLOAD_HELP
		"\n"
		"On a terminal control characters of the reply are escaped\n"
		"and a line feed is added if there is none at its end.\n"
		"Elsewhere, and with --raw, the bytes are printed as they\n"
		"are. Without --timeout the deadline is the daemon's default\n"
		"for calls.\n",
		{PAYLOAD_OPTIONS, OPT_HEADER, OPT_PRIORITY, OPT_TTL, OPT_RAW},
		2,
		-1,
		{COMPLETE_ALIAS, COMPLETE_NOTHING},
		verb_call,
	},
	{
		"gather",
		"EVENT ALIAS...",
		"send an event to many and print their replies",
		"Prints a line for each reply: the alias and the reply with\n"
		"what is not printable escaped; errors go to stderr. Ends\n"
		"with 0 if all answered well, or as many as --wanted says;\n"
		"the others are then told that it was cancelled.\n",
		{PAYLOAD_OPTIONS, OPT_WANTED, OPT_HEADER, OPT_PRIORITY,
			OPT_TTL},
		2,
		-1,
		{COMPLETE_NOTHING, COMPLETE_ALIAS},
		verb_gather,
	},
	{
		"bind",
		"ALIAS...",
		"take aliases and print their events",
		"Prints a line for each event: its alias if several are\n"
		"bound, its name, its payload with what is not printable\n"
		"escaped.\n"
		"\n"
		"--exec runs COMMAND instead, for one event at a time: the\n"
		"payload is its standard input; EVENTD_ALIAS, EVENTD_EVENT,\n"
		"EVENTD_ID, EVENTD_FROM, EVENTD_ATTEMPT and, for a call,\n"
		"EVENTD_CALL and EVENTD_DEADLINE_MS are its environment. What\n"
		"it prints is the reply to a call; if it ends with another\n"
		"status than 0, the call fails with that text. Without --exec\n"
		"and --reply-with calls get an empty reply. What is not\n"
		"handled when eventctl ends goes back to the daemon.\n",
		{OPT_EXEC, OPT_REPLY_WITH, OPT_FORWARD, OPT_COUNT, OPT_NAME,
			OPT_RECONNECT, OPT_RAW, OPT_NULL_OUT, OPT_IF_TAKEN,
			OPT_ALLOW_REPLACE, OPT_SHARED, OPT_FANOUT, OPT_DURABLE,
			OPT_WILL, OPT_OVERFLOW, OPT_MAX_EVENTS, OPT_MAX_BYTES},
		1,
		-1,
		{COMPLETE_ALIAS, COMPLETE_ALIAS},
		verb_bind,
	},
	{
		"wait",
		"ALIAS...",
		"wait until aliases have a holder",
		"Ends with 124 if they have none in time.\n",
		{OPT_END},
		1,
		-1,
		{COMPLETE_NOTHING, COMPLETE_NOTHING},
		verb_wait,
	},
	{
		"watch",
		"ALIAS...",
		"wait until sessions end, print why",
		"A line for each: the alias and the reason, which is normal,\n"
		"stopped, failed, connection lost, no such session or\n"
		"another. Without --timeout it waits for ever.\n",
		{OPT_LINK},
		1,
		-1,
		{COMPLETE_ALIAS, COMPLETE_ALIAS},
		verb_watch,
	},
	{
		"names",
		"[PATTERN]",
		"print the aliases, and those that come and go",
		"A line for each: up or down, the alias, the id of the\n"
		"session. A pattern is an alias in which one * may stand for\n"
		"anything. Goes on until it is stopped.\n",
		{OPT_COUNT},
		0,
		1,
		{COMPLETE_ALIAS, COMPLETE_NOTHING},
		verb_names,
	},
	{
		"monitor",
		"[PATTERN]",
		"print what the aliases that match handle",
		"A line for each event that the holder of such an alias has\n"
		"been given, with the head of its payload if you may manage\n"
		"it, for each alias that comes or goes, and for each end or\n"
		"failure of its session. It slows nobody: what is too much\n"
		"is left out, and told. A pattern is an alias in which one *\n"
		"may stand for anything.\n",
		{OPT_COUNT},
		0,
		1,
		{COMPLETE_ALIAS, COMPLETE_NOTHING},
		verb_monitor,
	},
	{
		"delay",
		"ALIAS EVENT [DATA...] --in SPAN|--at TIME|--on CALENDAR",
		"send an event later, print the timer's id",
		PAYLOAD_HELP,
		{LATER_OPTIONS, PAYLOAD_OPTIONS, OPT_HEADER, OPT_PRIORITY,
			OPT_TTL},
		2,
		-1,
		{COMPLETE_ALIAS, COMPLETE_NOTHING},
		verb_delay,
	},
	{
		"cancel",
		"ID... | ALIAS --name NAME | ALIAS --all",
		"take timers back",
		NULL,
		{OPT_TIMER_NAME, OPT_ALL_TIMERS},
		1,
		-1,
		{COMPLETE_ALIAS, COMPLETE_NOTHING},
		verb_cancel,
	},
	{
		"adjust",
		"ID | ALIAS --name NAME",
		"change a timer that is pending",
		"--in and --at say when it is due now, --every how it repeats\n"
		"from then on; --every 0 ends that.\n",
		{OPT_TIMER_NAME, OPT_IN, OPT_AT, OPT_EVERY},
		1,
		1,
		{COMPLETE_ALIAS, COMPLETE_NOTHING},
		verb_adjust,
	},
	{
		"calendar",
		"CALENDAR",
		"tell the next times of a calendar",
		"As --on of delay and [Schedule] of session files take it.\n",
		{OPT_ZONE, OPT_AFTER, OPT_TIMES},
		1,
		1,
		{COMPLETE_NOTHING, COMPLETE_NOTHING},
		verb_calendar,
	},
	{
		"list",
		"[PREFIX]",
		"list the sessions",
		"Only those with an alias that begins with PREFIX, if given.\n",
		{OPT_ALL},
		0,
		1,
		{COMPLETE_ALIAS, COMPLETE_NOTHING},
		verb_list,
	},
	{
		"status",
		"[ALIAS]",
		"show a session, or the daemon",
		NULL,
		{OPT_END},
		0,
		1,
		{COMPLETE_ALIAS, COMPLETE_NOTHING},
		verb_status,
	},
	{
		"timers",
		"[ALIAS]",
		"list the timers, the next one first",
		"Only those of ALIAS, if given.\n",
		{OPT_END},
		0,
		1,
		{COMPLETE_ALIAS, COMPLETE_NOTHING},
		verb_timers,
	},
	{
		"reload",
		"",
		"read the configuration again, apply what changed",
		"If the configuration is wrong, the old one stays.\n",
		{OPT_PREVIEW},
		0,
		0,
		{COMPLETE_NOTHING, COMPLETE_NOTHING},
		verb_reload,
	},
	{
		"restart",
		"ALIAS...",
		"start failed sessions now, with a fresh budget",
		NULL,
		{OPT_END},
		1,
		-1,
		{COMPLETE_ALIAS, COMPLETE_ALIAS},
		verb_restart,
	},
	{
		"profile",
		"[ALIAS]",
		"show what events cost, the dearest first",
		"%Time is the share of ExclSec, the time in the handler\n"
		"itself; CumulS has what the event waited for besides;\n"
		"sec/call and Csec/c are the same for one call. --on, --off\n"
		"and --reset print nothing. A daemon with Profile=yes\n"
		"profiles from its start.\n",
		{OPT_ON, OPT_OFF, OPT_RESET, OPT_ROWS, OPT_WAITS},
		0,
		1,
		{COMPLETE_ALIAS, COMPLETE_NOTHING},
		verb_profile,
	},
	{
		"spawn",
		"[FILE]",
		"start a session that no file asks for",
		"FILE is a session file; else --script or --plugin says what\n"
		"to run. It is there until it ends, is stopped or the daemon\n"
		"ends.\n",
		{OPT_SCRIPT, OPT_PLUGIN, OPT_ALIAS, OPT_PARAM, OPT_TIE,
			OPT_IF_TAKEN, OPT_ALLOW_REPLACE},
		0,
		1,
		{COMPLETE_FILE, COMPLETE_NOTHING},
		verb_spawn,
	},
	{
		"stop",
		"ALIAS...",
		"end sessions for good",
		"What waits in their mailboxes becomes dead letters. One that\n"
		"a file asks for comes back when that changes or the daemon\n"
		"starts.\n",
		{OPT_END},
		1,
		-1,
		{COMPLETE_ALIAS, COMPLETE_ALIAS},
		verb_stop,
	},
	{
		"session",
		"executor ALIAS NAME",
		"say who runs a session's handlers",
		"NAME is loop, or a pool of eventd.conf. Order is kept, and\n"
		"one event is handled at a time all the while. With --probe\n"
		"the session is called --count times (100) before and after.\n",
		{OPT_PROBE, OPT_MOST},
		3,
		3,
		{COMPLETE_SESSION, COMPLETE_ALIAS},
		verb_session,
	},
	{
		"tree",
		"",
		"show sessions below their parents and groups",
		NULL,
		{OPT_ALL},
		0,
		0,
		{COMPLETE_NOTHING, COMPLETE_NOTHING},
		verb_tree,
	},
	{
		"ping",
		"",
		"see whether the daemon answers, and how fast",
		NULL,
		{OPT_TIMES, OPT_INTERVAL},
		0,
		0,
		{COMPLETE_NOTHING, COMPLETE_NOTHING},
		verb_ping,
	},
	{
		"queue",
		"list|peek|pause|resume|purge|move ALIAS...",
		"look at mailboxes, stop and empty them",
		"list [PREFIX]    how full each is\n"
		"peek ALIAS       the events that wait, the next one first\n"
		"pause ALIAS...   its events wait; new ones are accepted, the\n"
		"                 control lane goes on\n"
		"resume ALIAS...  and they wait no more\n"
		"purge ALIAS      end what waits as cancelled; wants --yes\n"
		"move ALIAS TO    from the front of one to another's end,\n"
		"                 as many as that has room for\n",
		{OPT_MOST, OPT_SKIP, OPT_BYTES, OPT_ID, OPT_EVENT, OPT_YES},
		1,
		-1,
		{COMPLETE_QUEUE, COMPLETE_ALIAS},
		verb_queue,
	},
	{
		"dead",
		"list|show|requeue|purge [LETTER...]",
		"look at events that came to a bad end",
		"list               each with its reason\n"
		"show LETTER        one, with its payload\n"
		"requeue LETTER...  post the events again\n"
		"purge LETTER...    forget them; wants --yes\n"
		"\n"
		"Instead of numbers requeue and purge take --alias, --reason\n"
		"or --all.\n",
		{OPT_OF, OPT_REASON, OPT_MOST, OPT_ALL_LETTERS, OPT_TO, OPT_YES,
			OPT_RAW},
		1,
		-1,
		{COMPLETE_DEAD, COMPLETE_NOTHING},
		verb_dead,
	},
	{
		"why",
		"ID",
		"tell what became of an event",
		"ID is what post --print-id prints, and what dead list and\n"
		"queue peek show. Known are events that were posted so,\n"
		"durable ones, and those that came to a bad end, as far back\n"
		"as History= goes.\n",
		{OPT_END},
		1,
		1,
		{COMPLETE_NOTHING, COMPLETE_NOTHING},
		verb_why,
	},
	{
		"store",
		"stats|check|backup|compact|salvage [PATH [TO]]",
		"look at what is kept on disk",
		"stats        how it stands\n"
		"check        read all of it; exit 65 if an event is damaged\n"
		"backup PATH  copy it, while it is in use, to a new file;\n"
		"             PATH is absolute, the daemon's user writes it\n"
		"compact      give back what is free in the file\n"
		"salvage PATH TO  read what is left of a damaged file that\n"
		"             was set aside, to a new one; exit 65 if any is\n"
		"             lost. Without a daemon: eventd --salvage\n"
		"\n"
		"Durable posts wait while check, backup and compact run.\n",
		{OPT_END},
		1,
		3,
		{COMPLETE_STORE, COMPLETE_FILE},
		verb_store,
	},
	{
		"policy",
		"show|explain [USER RIGHT [ALIAS [EVENT]]]",
		"show who may do what, and which line says so",
		"show     the rules in force, in the order of asking\n"
		"explain  what decides: USER is a name, a uid, or pid:N of a\n"
		"         connected client; RIGHT is post, call, bind, watch,\n"
		"         manage or see; without ALIAS it is for the daemon\n",
		{OPT_END},
		1,
		5,
		{COMPLETE_POLICY, COMPLETE_NOTHING},
		verb_policy,
	},
	{
		"limits",
		"[USER]",
		"show what users make the daemon hold, and may",
		"USER is a name or a uid; else all that hold something.\n",
		{OPT_END},
		0,
		1,
		{COMPLETE_NOTHING, COMPLETE_NOTHING},
		verb_limits,
	},
	{
		"version",
		"",
		"print the versions of eventctl and the daemon",
		NULL,
		{OPT_END},
		0,
		0,
		{COMPLETE_NOTHING, COMPLETE_NOTHING},
		verb_version,
	},
	{
		"completion",
		"SHELL",
		"print the completions for bash, zsh or fish",
		"For example: eval \"$(eventctl completion bash)\"\n",
		{OPT_END},
		1,
		2,
		{COMPLETE_SHELL, COMPLETE_NOTHING},
		verb_completion,
	},
	{
		"help",
		"[VERB]",
		"explain a verb, or list them",
		NULL,
		{OPT_END},
		0,
		1,
		{COMPLETE_VERB, COMPLETE_NOTHING},
		verb_help,
	},
	{NULL, NULL, NULL, NULL, {OPT_END}, 0, 0, {0, 0}, NULL},
};

const char *
complete_words(enum complete how)
{
	switch (how) {
	case COMPLETE_SHELL:
		return verb_shells;
	case COMPLETE_QUEUE:
		return "list peek pause resume purge move";
	case COMPLETE_DEAD:
		return "list show requeue purge";
	case COMPLETE_POLICY:
		return "show explain";
	case COMPLETE_STORE:
		return "stats check backup compact salvage";
	case COMPLETE_SESSION:
		return "executor";
	case COMPLETE_NOTHING:
	case COMPLETE_ALIAS:
	case COMPLETE_FILE:
	case COMPLETE_VERB:
	case COMPLETE_VALUES:
		break;
	}
	return NULL;
}

const struct verb *
verb_find(const char *name)
{
	for (const struct verb *v = verbs; v->name; v++)
		if (strcmp(v->name, name) == 0)
			return v;
	return NULL;
}

enum { LIKE_MAX = 15 }; /* bytes of the words that are compared */

static size_t
least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Letters to add, drop or change to make one word of the other. */
static size_t
distance(const char *a, const char *b)
{
	size_t row[LIKE_MAX + 1], before, above;

	for (size_t k = 0; k <= strlen(b); k++)
		row[k] = k;
	for (size_t i = 1; a[i - 1]; i++) {
		before = row[0];
		row[0] = i;
		for (size_t k = 1; b[k - 1]; k++) {
			above = row[k];
			row[k] = least(least(row[k - 1], above) + 1,
				before + (a[i - 1] != b[k - 1]));
			before = above;
		}
	}
	return row[strlen(b)];
}

const struct verb *
verb_like(const char *name)
{
	const struct verb *best = NULL;
	size_t best_distance = 3, d;

	if (strlen(name) > LIKE_MAX)
		return NULL;
	for (const struct verb *v = verbs; v->name; v++) {
		d = distance(name, v->name);
		if (d < best_distance && d < strlen(v->name) - 1) {
			best = v;
			best_distance = d;
		}
	}
	return best;
}

static enum option_id
list_find(const unsigned char *ids, const char *name, char letter)
{
	const struct option_spec *spec;

	for (; *ids != OPT_END; ids++) {
		spec = &option_specs[*ids];
		if (name ? strcmp(spec->name, name) == 0
			 : spec->letter == letter)
			return *ids;
	}
	return OPT_END;
}

enum option_id
verb_option(const struct verb *verb, const char *name)
{
	enum option_id id = OPT_END;

	if (verb)
		id = list_find(verb->options, name, 0);
	return id ? id : list_find(global_options, name, 0);
}

enum option_id
verb_option_letter(const struct verb *verb, char letter)
{
	enum option_id id = OPT_END;

	if (verb)
		id = list_find(verb->options, NULL, letter);
	return id ? id : list_find(global_options, NULL, letter);
}

const char *
values_at(const char *values, size_t i, size_t *size)
{
	for (; *values; i--) {
		*size = strcspn(values, " ");
		if (i == 0)
			return values;
		values += *size;
		values += strspn(values, " ");
	}
	return NULL;
}

int
values_index(const char *values, const char *word)
{
	const char *value;
	size_t size;

	for (int i = 0; (value = values_at(values, (size_t)i, &size)); i++)
		if (strlen(word) == size && memcmp(value, word, size) == 0)
			return i;
	return -1;
}
