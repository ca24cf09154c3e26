/* The table of verbs and options: see verb.h. Constant, any thread. */
#include "verb.h"

#include <string.h>

const char verb_shells[] = "bash zsh fish";

const struct option_spec option_specs[N_OPTIONS] = {
	[OPT_SOCKET] = {"socket", 0, "PATH",
		"the daemon's socket; goes before $EVENTD_SOCKET", NULL,
		COMPLETE_FILE},
	[OPT_USER] = {"user", 0, NULL, "talk to this user's own daemon", NULL,
		0},
	[OPT_SYSTEM] = {"system", 0, NULL, "talk to the system's daemon", NULL,
		0},
	[OPT_TIMEOUT] = {"timeout", 0, "SPAN",
		"wait so long at most: 5s, 2min, infinity (default 30s)", NULL,
		0},
	[OPT_JSON] = {"json", 'j', NULL, "print JSON, one object a line", NULL,
		0},
	[OPT_NO_LEGEND] = {"no-legend", 0, NULL,
		"print tables without heading and summary", NULL, 0},
	[OPT_COLOR] = {"color", 0, "WHEN", "auto, always or never",
		"auto always never", COMPLETE_VALUES},
	[OPT_QUIET] = {"quiet", 'q', NULL, "no notes on stderr, errors alone",
		NULL, 0},
	[OPT_VERBOSE] = {"verbose", 'v', NULL, "more notes on stderr", NULL, 0},
	[OPT_HELP] = {"help", 'h', NULL, "explain the verb", NULL, 0},
	[OPT_VERSION] = {"version", 0, NULL, "print the version of eventctl",
		NULL, 0},

	[OPT_DATA] = {"data", 'd', "TEXT", "the payload is TEXT, as it stands",
		NULL, 0},
	[OPT_FILE] = {"file", 'f', "FILE",
		"the payload is what FILE holds; -: standard input", NULL,
		COMPLETE_FILE},
	[OPT_LINES] = {"lines", 0, NULL,
		"an event for each line of the input, without its line feed",
		NULL, 0},
	[OPT_NULL] = {"null", '0', NULL,
		"an event for each part of the input that a NUL byte ends",
		NULL, 0},
	[OPT_HEX] = {"hex", 0, NULL, "the payload is given in hexadecimal",
		NULL, 0},
	[OPT_BASE64] = {"base64", 0, NULL, "the payload is given in base64",
		NULL, 0},

	[OPT_WAIT] = {"wait", 0, "LEVEL",
		"wait until it is accepted (default), durable, delivered or "
		"handled",
		"accepted durable delivered handled", COMPLETE_VALUES},
	[OPT_NO_WAIT] = {"no-wait", 0, NULL,
		"fail at once if the mailbox is full", NULL, 0},
	[OPT_HEADER] = {"header", 'H', "NAME=VALUE",
		"add a header; may be given several times", NULL, 0},
	[OPT_IN] = {"in", 0, "SPAN", "due so long after now: 90s, '1h 30min'",
		NULL, 0},
	[OPT_AT] = {"at", 0, "TIME",
		"due then: 2026-12-24T18:00:00Z, '2026-12-24 18:00' or "
		"@1798131600",
		NULL, 0},
	[OPT_EVERY] = {"every", 0, "SPAN", "and then again every so often",
		NULL, 0},
	[OPT_RAW] = {"raw", 0, NULL, "print payload bytes as they are", NULL,
		0},
	[OPT_EXEC] = {"exec", 'x', "COMMAND",
		"run COMMAND by /bin/sh for each event", NULL, 0},
	[OPT_REPLY_WITH] = {"reply-with", 0, "TEXT", "answer calls with TEXT",
		NULL, 0},
	[OPT_COUNT] = {"count", 'n', "N", "end after N events", NULL, 0},
	[OPT_NAME] = {"name", 0, "NAME",
		"call this program so in eventctl list", NULL, 0},
	[OPT_RECONNECT] = {"reconnect", 0, NULL,
		"connect and bind again when the connection is lost", NULL, 0},
	[OPT_IF_TAKEN] = {"if-taken", 0, "WHAT",
		"if another holds the alias: refuse (default), queue or "
		"replace",
		"refuse queue replace", COMPLETE_VALUES},
	[OPT_ALLOW_REPLACE] = {"allow-replace", 0, NULL,
		"let others take the alias by --if-taken replace", NULL, 0},
	[OPT_SHARED] = {"shared", 0, NULL,
		"share the events with others that bind so: each goes to one",
		NULL, 0},
	[OPT_FANOUT] = {"fanout", 0, NULL,
		"each event goes to all that bind so", NULL, 0},
	[OPT_WILL] = {"will", 0, "'ALIAS EVENT [DATA]'",
		"an event to be sent if this program dies", NULL, 0},
	[OPT_OVERFLOW] = {"overflow", 0, "WHAT",
		"what a full mailbox does: block (default), refuse, "
		"drop-oldest or drop-newest; also for classes, as Overflow= in "
		"a session file",
		NULL, 0},
	[OPT_MAX_EVENTS] = {"max-events", 0, "N",
		"events that the mailbox holds (default 1024)", NULL, 0},
	[OPT_MAX_BYTES] = {"max-bytes", 0, "N",
		"bytes that it holds (default 4194304)", NULL, 0},
	[OPT_LINK] = {"link", 0, NULL,
		"the sessions fail if this program dies before them", NULL, 0},
	[OPT_PROBE] = {"probe", 0, "EVENT",
		"call EVENT before and after, and tell how long that took",
		NULL, 0},
	[OPT_TIE] = {"tie", 0, NULL,
		"wait until it ends; it ends with this program at the latest",
		NULL, 0},
	[OPT_NULL_OUT] = {"null", '0', NULL,
		"end each payload of --raw with a NUL byte, not a line feed",
		NULL, 0},
	[OPT_ALL] = {"all", 'a', NULL, "also sessions without an alias", NULL,
		0},
	[OPT_PREVIEW] = {"preview", 0, NULL, "only tell what would change",
		NULL, 0},
	[OPT_TIMES] = {"count", 'n', "N", "so many times (default 1)", NULL, 0},
	[OPT_INTERVAL] = {"interval", 0, "SPAN",
		"pause between two (default 1s)", NULL, 0},
	[OPT_SCRIPT] = {"script", 0, "FILE", "run this Lua script", NULL,
		COMPLETE_FILE},
	[OPT_PLUGIN] = {"plugin", 0, "FILE", "run this shared object", NULL,
		COMPLETE_FILE},
	[OPT_ALIAS] = {"alias", 0, "ALIAS",
		"a name for it; may be given several times", NULL, 0},
	[OPT_PARAM] = {"param", 0, "NAME=VALUE",
		"a parameter, as in [Params]; may be given several times", NULL,
		0},
	[OPT_PRIORITY] = {"priority", 0, "WORD",
		"normal (default), or urgent: handled before the others",
		"normal urgent", COMPLETE_VALUES},
	[OPT_TTL] = {"ttl", 0, "SPAN",
		"not to be handled later than that: 5s, 2min", NULL, 0},
	[OPT_KEY] = {"key", 0, "KEY",
		"sent again with the same KEY it is accepted once", NULL, 0},
	[OPT_WANTED] = {"wanted", 'n', "N", "N good answers are enough", NULL,
		0},
	[OPT_FORWARD] = {"forward", 0, "ALIAS",
		"send the events on to ALIAS, which answers calls", NULL,
		COMPLETE_ALIAS},
	[OPT_ON] = {"on", 0, NULL, "profile from now on", NULL, 0},
	[OPT_OFF] = {"off", 0, NULL, "profile no more; the figures stay", NULL,
		0},
	[OPT_RESET] = {"reset", 0, NULL, "forget the figures of all sessions",
		NULL, 0},
	[OPT_ROWS] = {"rows", 'n', "N",
		"the first N, the others in one "
		"(default 50)",
		NULL, 0},
	[OPT_WAITS] = {"waits", 'w', NULL,
		"also the time in the mailbox and how late timers were", NULL,
		0},
	[OPT_CALENDAR] = {"on", 0, "CALENDAR",
		"due by a calendar: hourly, 'Mon..Fri 09:00', '0 9 * * 1-5'",
		NULL, 0},
	[OPT_ZONE] = {"zone", 0, "ZONE",
		"time zone of the calendar (default the daemon's)", NULL, 0},
	[OPT_MISFIRE] = {"misfire", 0, "RULE",
		"for calendar times missed in a suspend: once (default), skip "
		"or all",
		"once skip all", COMPLETE_VALUES},
	[OPT_TIMER_NAME] = {"name", 0, "NAME",
		"the timer's name; an earlier one of the alias goes", NULL, 0},
	[OPT_SLACK] = {"slack", 0, "SPAN",
		"may be so much late, to fire together with others", NULL, 0},
	[OPT_CLOCK] = {"clock", 0, "CLOCK",
		"count --in by this: monotonic (default), boottime or wall",
		"monotonic boottime wall", COMPLETE_VALUES},
	[OPT_ALL_TIMERS] = {"all", 'a', NULL, "all timers for the alias", NULL,
		0},
	[OPT_AFTER] = {"after", 0, "TIME", "from then on (default now)", NULL,
		0},
	[OPT_YES] = {"yes", 'y', NULL, "do it: it cannot be taken back", NULL,
		0},
	[OPT_EVENT] = {"event", 'e', "EVENT", "only events of this name", NULL,
		0},
	[OPT_MOST] = {"count", 'n', "N", "at most so many", NULL, 0},
	[OPT_SKIP] = {"skip", 0, "N", "pass over the first N", NULL, 0},
	[OPT_BYTES] = {"bytes", 0, "N",
		"show so many bytes of each payload (default 64)", NULL, 0},
	[OPT_ID] = {"id", 0, "ID", "only the event of this id", NULL, 0},
	[OPT_TO] = {"to", 0, "ALIAS", "post to ALIAS, not to where it was for",
		NULL, COMPLETE_ALIAS},
	[OPT_OF] = {"alias", 0, "ALIAS", "only letters that were for ALIAS",
		NULL, COMPLETE_ALIAS},
	[OPT_REASON] = {"reason", 0, "REASON", "only letters of this reason",
		"overflow no-alias expired died refused attempts unhandled",
		COMPLETE_VALUES},
	[OPT_ALL_LETTERS] = {"all", 'a', NULL, "all letters", NULL, 0},
};

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
		OPT_TIMER_NAME, OPT_SLACK, OPT_CLOCK

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
			LATER_OPTIONS},
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
			OPT_ALLOW_REPLACE, OPT_SHARED, OPT_FANOUT, OPT_WILL,
			OPT_OVERFLOW, OPT_MAX_EVENTS, OPT_MAX_BYTES},
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
		"it, and for each alias that comes or goes. It slows nobody:\n"
		"what is too much is left out, and told. A pattern is an\n"
		"alias in which one * may stand for anything.\n",
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
		"store",
		"stats|check|backup [PATH]",
		"look at what is kept on disk",
		"stats        how it stands\n"
		"check        read all of it; exit 65 if an event is damaged\n"
		"backup PATH  copy it, while it is in use, to a new file;\n"
		"             PATH is absolute, the daemon's user writes it\n"
		"\n"
		"Durable posts wait while check and backup run.\n",
		{OPT_END},
		1,
		2,
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
		return "stats check backup";
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
