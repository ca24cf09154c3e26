/*
 * D-Bus over a private Unix socket, through sd-bus.
 *
 *   dbus-daemon   the reference message bus
 *   dbus-broker   the alternative bus; its launcher needs systemd, so this
 *                 program is its controller: it hands over the listening
 *                 socket and an allow-all policy
 *
 * A mailbox is a well-known name; a post is a method call without reply.
 * fan-10 is a broadcast signal with one match rule per subscriber.  sd-bus
 * has no batching: each message is one write, and two reads.
 */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <systemd/sd-bus.h>

#define NAME "peers.Box"
#define PATH "/box"
#define FACE "peers.Box"

enum { DEPTH = 64 };

#define OK(x)                                             \
	do {                                              \
		int r_ = (x);                             \
		if (r_ < 0)                               \
			die("%s: %s", #x, strerror(-r_)); \
	} while (0)

static const char *
address(struct bench *b)
{
	static char a[300];
	snprintf(a, sizeof a, "unix:path=%s", path_in(b, "sock"));
	return a;
}

/* ---- servers ----------------------------------------------------------- */

static void
daemon_start(struct bench *b)
{
	char conf[300];
	snprintf(conf, sizeof conf, "--config-file=%s", path_in(b, "bus.conf"));
	write_file(path_in(b, "bus.conf"),
		"<busconfig>\n"
		"<type>session</type>\n"
		"<listen>%s</listen>\n"
		"<auth>EXTERNAL</auth>\n"
		"<policy context=\"default\">\n"
		"<allow user=\"*\"/><allow own=\"*\"/>\n"
		"<allow send_type=\"method_call\"/>\n"
		"<allow send_type=\"signal\"/>\n"
		"<allow send_requested_reply=\"true\""
		" send_type=\"method_return\"/>\n"
		"<allow send_requested_reply=\"true\" send_type=\"error\"/>\n"
		"<allow receive_type=\"method_call\"/>\n"
		"<allow receive_type=\"signal\"/>\n"
		"<allow receive_type=\"method_return\"/>\n"
		"<allow receive_type=\"error\"/>\n"
		"</policy>\n"
		"<limit name=\"max_incoming_bytes\">1000000000</limit>\n"
		"<limit name=\"max_outgoing_bytes\">1000000000</limit>\n"
		"<limit name=\"max_completed_connections\">100000</limit>\n"
		"<limit name=\"max_incomplete_connections\">10000</limit>\n"
		"<limit name=\"max_connections_per_user\">100000</limit>\n"
		"<limit name=\"max_replies_per_connection\">50000</limit>\n"
		"</busconfig>\n",
		address(b));
	spawn(b, (const char *[]){"dbus-daemon", conf, "--nofork",
			 "--nopidfile", "--nosyslog", NULL});
}

#define BATCH_T "bta(btbs)a(btssssuutt)a(btssssuutt)"
#define POLICY_T "(a(u(" BATCH_T "))a(buu(" BATCH_T "))a(ss)bs)"

static sd_bus *controller;

static void
broker_start(struct bench *b)
{
	int pair[2], lfd = unix_listen(path_in(b, "sock"));
	char fd[16];
	uint64_t lo = 0, hi = UINT64_MAX, prio = 1;
	sd_bus_message *m;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
		      pair) == 0);
	CHECK(fcntl(lfd, F_SETFL, O_NONBLOCK) == 0);
	CHECK(fcntl(pair[1], F_SETFD, 0) == 0);
	snprintf(fd, sizeof fd, "%d", pair[1]);
	spawn(b, (const char *[]){"dbus-broker", "--controller", fd,
			 "--machine-id", "00112233445566778899aabbccddeeff",
			 "--max-bytes", "1000000000", "--max-fds", "100000",
			 "--max-matches", "1000000", "--max-objects", "1000000",
			 NULL});
	close(pair[1]);

	OK(sd_bus_new(&controller));
	OK(sd_bus_set_fd(controller, pair[0], pair[0]));
	OK(sd_bus_start(controller));
	OK(sd_bus_message_new_method_call(controller, &m, NULL,
		"/org/bus1/DBus/Broker", "org.bus1.DBus.Broker",
		"AddListener"));
	OK(sd_bus_message_append(m, "oh", "/org/bus1/DBus/Listener/0", lfd));
	/* Everybody may connect, own any name, send and receive anything. */
	OK(sd_bus_message_append(m, "v", POLICY_T, 1, (uint32_t)-1, 1, prio, 1,
		1, prio, 1, "", 1, 1, prio, "", "", "", "", 0, 0, lo, hi, 1, 1,
		prio, "", "", "", "", 0, 0, lo, hi, 0, 0, 0, "session"));
	OK(sd_bus_call(controller, m, 0, NULL, NULL));
	sd_bus_message_unref(m);
	close(lfd);
}

static int
try_connect(struct bench *b, sd_bus **bus)
{
	OK(sd_bus_new(bus));
	OK(sd_bus_set_address(*bus, address(b)));
	OK(sd_bus_set_bus_client(*bus, 1));
	int r = sd_bus_start(*bus);
	const char *name;
	if (r >= 0)
		r = sd_bus_get_unique_name(*bus, &name); /* waits for Hello */
	return r;
}

static sd_bus *
connect_to(struct bench *b)
{
	sd_bus *bus;
	OK(try_connect(b, &bus));
	return bus;
}

static int
answers(struct bench *b)
{
	sd_bus *bus;
	if (access(path_in(b, "sock"), F_OK) != 0)
		return 0;
	int r = try_connect(b, &bus);
	sd_bus_close(bus);
	sd_bus_unref(bus);
	return r >= 0;
}

/* ---- one way ----------------------------------------------------------- */

static void
append_bytes(sd_bus_message *m, const void *buf, size_t n)
{
	OK(sd_bus_message_append_array(m, 'y', buf, n));
}

static void
producer(struct bench *b, struct role *r)
{
	sd_bus *bus = connect_to(b);
	char *buf = calloc(1, b->size);
	/* The consumer owns its name only once it is ready. */
	for (int i = 0;
		b->ncons == 1 && sd_bus_get_name_creds(bus, NAME, 0, NULL) < 0;
		i++) {
		CHECK(i < 5000);
		usleep(1000);
	}
	role_ready(r);
	while (msg_next(r, buf)) {
		sd_bus_message *m;
		if (b->ncons > 1) {
			OK(sd_bus_message_new_signal(
				bus, &m, PATH, FACE, "Post"));
		} else {
			OK(sd_bus_message_new_method_call(
				bus, &m, NAME, PATH, FACE, "Post"));
			OK(sd_bus_message_set_expect_reply(m, 0));
		}
		append_bytes(m, buf, b->size);
		OK(sd_bus_send(bus, m, NULL));
		sd_bus_message_unref(m);
		if (msg_full(r)) {
			OK(sd_bus_flush(bus));
			msg_wait(r);
		} else if ((r->sent & 255) == 0) {
			OK(sd_bus_flush(bus)); /* never queue without bound */
		}
	}
	OK(sd_bus_flush(bus));
}

struct box {
	struct role *r;
	int end;
};

static int
on_post(sd_bus_message *m, void *arg, sd_bus_error *e)
{
	struct box *x = arg;
	const void *p;
	size_t n;
	(void)e;
	if (!sd_bus_message_get_member(m) ||
		strcmp(sd_bus_message_get_member(m), "Post") != 0)
		return 0;
	OK(sd_bus_message_read_array(m, 'y', &p, &n));
	x->end = msg_got(x->r, p, n);
	return 1;
}

static void
serve(sd_bus *bus, int *end)
{
	while (!*end) {
		int k = sd_bus_process(bus, NULL);
		OK(k);
		if (k == 0)
			OK(sd_bus_wait(bus, UINT64_MAX));
	}
}

static void
consumer(struct bench *b, struct role *r)
{
	sd_bus *bus = connect_to(b);
	struct box x = {r, 0};
	if (b->ncons > 1) {
		OK(sd_bus_add_match(bus, NULL,
			"type='signal',interface='" FACE "',member='Post'",
			on_post, &x));
	} else {
		OK(sd_bus_add_filter(bus, NULL, on_post, &x));
		OK(sd_bus_request_name(bus, NAME, 0));
	}
	role_ready(r);
	serve(bus, &x.end);
}

/* ---- request and reply ------------------------------------------------- */

static void
caller(struct bench *b, struct role *r)
{
	sd_bus *bus = connect_to(b);
	char buf[64] = {0};
	for (int i = 0; sd_bus_get_name_creds(bus, NAME, 0, NULL) < 0; i++) {
		CHECK(i < 5000);
		usleep(1000);
	}
	role_ready(r);
	while (call_next(r, buf)) {
		sd_bus_message *m, *a;
		const void *p;
		size_t n;
		OK(sd_bus_message_new_method_call(
			bus, &m, NAME, PATH, FACE, "Call"));
		append_bytes(m, buf, b->size);
		OK(sd_bus_call(bus, m, 0, NULL, &a));
		OK(sd_bus_message_read_array(a, 'y', &p, &n));
		CHECK(n == b->size);
		sd_bus_message_unref(m);
		sd_bus_message_unref(a);
		call_done(r);
	}
}

static int
on_call(sd_bus_message *m, void *arg, sd_bus_error *e)
{
	const void *p;
	size_t n;
	sd_bus_message *a;
	(void)arg, (void)e;
	if (!sd_bus_message_is_method_call(m, FACE, "Call"))
		return 0;
	OK(sd_bus_message_read_array(m, 'y', &p, &n));
	OK(sd_bus_message_new_method_return(m, &a));
	append_bytes(a, p, n);
	OK(sd_bus_send(sd_bus_message_get_bus(m), a, NULL));
	sd_bus_message_unref(a);
	return 1;
}

static void
responder(struct bench *b, struct role *r)
{
	sd_bus *bus = connect_to(b);
	int never = 0;
	OK(sd_bus_add_filter(bus, NULL, on_call, NULL));
	OK(sd_bus_request_name(bus, NAME, 0));
	role_ready(r);
	serve(bus, &never);
}

/* ---- the server alone: org.freedesktop.DBus.GetId ---------------------- */

#define BUS \
	"org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus"

static void
echo(struct bench *b, struct role *r)
{
	sd_bus *bus = connect_to(b);
	char buf[64];
	role_ready(r);
	while (call_next(r, buf)) {
		sd_bus_message *a;
		OK(sd_bus_call_method(bus, BUS, "GetId", NULL, &a, NULL));
		sd_bus_message_unref(a);
		call_done(r);
	}
}

static int
on_reply(sd_bus_message *m, void *arg, sd_bus_error *e)
{
	(void)e;
	CHECK(!sd_bus_message_is_method_error(m, NULL));
	post_acked(arg, 1);
	return 1;
}

static void
echo_pipe(struct bench *b, struct role *r)
{
	sd_bus *bus = connect_to(b);
	char buf[64];
	bool more = true;
	role_ready(r);
	while (more || post_open(r) > 0) {
		while (more && post_open(r) < DEPTH &&
			(more = post_next(r, buf)))
			OK(sd_bus_call_method_async(
				bus, NULL, BUS, "GetId", on_reply, r, NULL));
		if (post_open(r) == 0)
			break;
		int k = sd_bus_process(bus, NULL);
		OK(k);
		if (k == 0)
			OK(sd_bus_wait(bus, UINT64_MAX));
	}
}

/* ---- idle connections -------------------------------------------------- */

static sd_bus *idle[2000];

static int
open_conn(struct bench *b, int i)
{
	idle[i] = connect_to(b);
	return 1;
}

static int
open_sub(struct bench *b, int i)
{
	char name[64];
	(void)b;
	snprintf(name, sizeof name, "peers.Box.n%d", i);
	return sd_bus_request_name(idle[i], name, 0) >= 0;
}

int
main(int argc, char **argv)
{
	static const struct peer peers[] = {
		{.name = "dbus-daemon",
			.server = daemon_start,
			.answers = answers,
			.producer = producer,
			.consumer = consumer,
			.caller = caller,
			.responder = responder,
			.echo = echo,
			.echo_pipe = echo_pipe,
			.open_conn = open_conn,
			.open_sub = open_sub,
			.window = 1024},
		{.name = "dbus-broker",
			.server = broker_start,
			.answers = answers,
			.producer = producer,
			.consumer = consumer,
			.caller = caller,
			.responder = responder,
			.echo = echo,
			.echo_pipe = echo_pipe,
			.open_conn = open_conn,
			.open_sub = open_sub,
			.window = 1024},
		{0},
	};
	return bench_main(argc, argv, peers);
}
