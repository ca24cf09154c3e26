/* main: the command line of eventd. It never puts itself in the background:
 * a supervisor, or a shell, sees to that. */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config_value.h"
#include "daemon.h"
#include "eventd/version.h"
#include "store/salvage.h"

static const char help[] =
	"usage: eventd [OPTION...]\n"
	"Post an event to a name; something supervised handles it.\n"
	"\n"
	"  -c, --config FILE      read FILE, and sessions.d and eventd.conf.d\n"
	"                         beside it, instead of /etc/eventd\n"
	"      --check-config     say what is wrong with the configuration\n"
	"      --user             be the user's instance: ~/.config/eventd\n"
	"                         and $XDG_RUNTIME_DIR/eventd/eventd.sock\n"
	"  -s, --socket PATH      listen there\n"
	"  -n, --loops N          threads that run sessions, or auto\n"
	"  -l, --log-level LEVEL  error, warning, info or debug\n"
	"      --no-store         durable mailboxes are not, for this run\n"
	"      --salvage FILE TO  read what is left of a damaged store FILE\n"
	"                         to the new file TO, and end\n"
	"      --foreground       stay in the foreground, as it always does\n"
	"  -V, --version          print the version\n"
	"  -h, --help             print this\n"
	"\n"
	"See eventd(8), eventd.conf(5) and eventd.session(5).\n";

enum {
	OPT_CHECK = 256,
	OPT_USER,
	OPT_FOREGROUND,
	OPT_NO_STORE,
	OPT_SALVAGE,
};

static const struct option options[] = {
	{"config", required_argument, NULL, 'c'},
	{"check-config", no_argument, NULL, OPT_CHECK},
	{"user", no_argument, NULL, OPT_USER},
	{"socket", required_argument, NULL, 's'},
	{"loops", required_argument, NULL, 'n'},
	{"log-level", required_argument, NULL, 'l'},
	{"foreground", no_argument, NULL, OPT_FOREGROUND},
	{"no-store", no_argument, NULL, OPT_NO_STORE},
	{"salvage", required_argument, NULL, OPT_SALVAGE},
	{"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

struct arguments {
	struct config_source source;
	bool check;
	const char *salvage; /* from there */
	int exit;            /* -1: go on */
};

static int
usage(const char *what)
{
	if (what)
		fprintf(stderr, "eventd: %s\n", what);
	fputs("eventd: --help tells the options\n", stderr);
	return DAEMON_EXIT_USAGE;
}

static int
loops_from(const char *text, int *loops)
{
	uint64_t n;

	if (strcmp(text, "auto") == 0) {
		*loops = CONFIG_LOOPS_OPTION_AUTO;
		return -1;
	}
	if (value_count(text, &n) || n < 1 || n > KERNEL_LOOPS_MAX)
		return usage("--loops needs a number from 1 to 64, or auto");
	*loops = (int)n;
	return -1;
}

static int
print(const char *text)
{
	fputs(text, stdout);
	return fflush(stdout) == 0 ? 0 : DAEMON_EXIT_OS;
}

/* -1: go on with the next. */
static int
argument_take(struct arguments *a, int option)
{
	switch (option) {
	case 'c':
		a->source.file = optarg;
		return -1;
	case 's':
		a->source.socket = optarg;
		return -1;
	case 'n':
		return loops_from(optarg, &a->source.loops);
	case 'l':
		a->source.log_level = optarg;
		return -1;
	case OPT_CHECK:
		a->check = true;
		return -1;
	case OPT_USER:
		a->source.user = true;
		return -1;
	case OPT_NO_STORE:
		a->source.no_store = true;
		return -1;
	case OPT_SALVAGE:
		a->salvage = optarg;
		return -1;
	case OPT_FOREGROUND:
		return -1;
	case 'V':
		return print("eventd " EVD_VERSION "\n");
	case 'h':
		return print(help);
	default:
		return usage(NULL);
	}
}

static int
salvage(const char *from, const char *to)
{
	struct salvage s;

	if (store_salvage(from, to, &s)) {
		fprintf(stderr, "eventd: %s: %s\n", from, s.text);
		return DAEMON_EXIT_OS;
	}
	printf("%s: %" PRIu64 " events in %" PRIu64 " mailboxes, %" PRIu64
	       " of them damaged; %" PRIu64 " lost%s\n",
		to, s.events, s.mailboxes, s.damaged, s.lost,
		s.counts_known ? "" : ", perhaps more");
	return s.lost || s.damaged || !s.counts_known ? DAEMON_EXIT_DATA : 0;
}

static int
arguments_read(struct arguments *a, int argc, char **argv)
{
	int option, r;

	while ((option = getopt_long(
			argc, argv, "c:s:n:l:Vh", options, NULL)) != -1) {
		r = argument_take(a, option);
		if (r >= 0)
			return r;
	}
	if (a->salvage && optind + 1 == argc)
		return salvage(a->salvage, argv[optind]);
	if (a->salvage)
		return usage("--salvage needs a file, and where to");
	if (optind < argc) {
		fprintf(stderr, "eventd: there is no argument '%s'\n",
			argv[optind]);
		return usage(NULL);
	}
	return -1;
}

static int
refuse(struct config_errors *errors)
{
	for (size_t i = 0; i < errors->n; i++)
		fprintf(stderr, "%s\n", errors->lines[i]);
	if (errors->n_left_out > 0)
		fprintf(stderr, "and %zu more\n", errors->n_left_out);
	config_errors_deinit(errors);
	return DAEMON_EXIT_CONFIG;
}

static int
report(struct config *config)
{
	for (size_t i = 0; i < config->warnings.n; i++)
		fprintf(stderr, "%s\n", config->warnings.lines[i]);
	printf("ok: %s, %zu sessions, socket %s\n",
		config->file ? config->file : "no eventd.conf, defaults",
		config->n_specs, config->socket);
	config_free(config);
	return fflush(stdout) == 0 ? 0 : DAEMON_EXIT_OS;
}

/* Whoever started us may have closed them: what we open must not take their
 * place, for the log would be written there. */
static int
standard_files_open(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd < 0)
		return DAEMON_EXIT_OS;
	close(fd);
	return 0;
}

/* Test builds alone have fault points. */
static int
faults_read(void)
{
#ifndef NDEBUG
	const char *faults = getenv("EVENTD_FAULTS");

	if (faults && fault_arm_always(faults)) {
		fprintf(stderr, "EVENTD_FAULTS: use NAME:N,NAME:N...\n");
		return -1;
	}
#endif
	return 0;
}

int
main(int argc, char **argv)
{
	struct arguments a = {0};
	struct config_errors errors = {0};
	struct config *config;
	int r = standard_files_open();

	if (r)
		return r;
	r = arguments_read(&a, argc, argv);
	if (r >= 0)
		return r;
	if (faults_read())
		return DAEMON_EXIT_USAGE;
	daemon_hold_hangups();
	if (config_load(&a.source, &config, &errors))
		return refuse(&errors);
	if (a.check)
		return report(config);
	return daemon_run(&a.source, config);
}
