/* Both kinds on two schedulers, each run by a thread of its own: sessions that
 * call and post across, restart and load the same plugin at the same time.
 * Worth most under ThreadSanitizer. */
#include "rig.h"

#include <pthread.h>
#include <sched.h>

enum { ROUNDS = 2000 };

struct two {
	struct rig *rig; /* scheduler 0, run by the test's thread */
	struct sched other;
	pthread_t thread;
	_Atomic bool stop;
};

static void *
run_other(void *arg)
{
	struct two *two = arg;

	kind_thread_init();
	while (!atomic_load(&two->stop)) {
		sched_turn(&two->other);
		sched_yield();
	}
	kind_thread_deinit();
	return NULL;
}

static void
two_start(struct two *two, struct rig *rig)
{
	two->rig = rig;
	rig->k.clock = &clock_system;
	rig_turn(rig); /* before anything is due by it */
	atomic_store(&two->stop, false);
	assert_int_equal(pthread_create(&two->thread, NULL, run_other, two), 0);
}

static void
two_stop(struct two *two)
{
	atomic_store(&two->stop, true);
	assert_int_equal(pthread_join(two->thread, NULL), 0);
	sched_deinit(&two->other);
}

/* Before the thread runs. */
static void
two_add(struct two *two, struct session_spec *spec)
{
	struct session *s =
		session_new(&two->other, kind_find(spec->kind), spec, NULL);

	assert_non_null(s);
	spec_unref(spec);
}

static const char *
two_call(
	struct two *two, const char *alias, const char *event, const char *data)
{
	struct rig *rig = two->rig;
	unsigned n = rig->n_replies;

	rig_call_later(rig, alias, event, data);
	while (rig->n_replies == n) {
		sched_turn(&rig->s);
		sched_yield();
	}
	return rig->reply;
}

static struct session_spec *
player(struct rig *rig, const char *alias, const char *peer)
{
	struct session_spec *spec = rig_spec(
		rig, "native", alias, EXAMPLES_DIR "/native/pingpong.so");

	spec_add_param(spec, "peer", peer);
	return spec;
}

static void
test_sessions_of_two_threads(void **state)
{
	static struct two two; /* a scheduler is large */
	struct rig *rig = *state;
	char text[64];

	assert_int_equal(
		sched_init(&two.other, &rig->k, 1, &rig_executor, NULL), 0);
	rig_start(rig, player(rig, "ping", "pong"));
	two_add(&two, player(rig, "pong", "ping"));
	rig_lua(rig, "asks",
		"return { x = function(n)\n"
		"  for i = 1, n do\n"
		"    local r, w, t = eventd.call('answers', 'echo', i)\n"
		"    assert(r == tostring(i), t)\n"
		"    eventd.post('answers', 'note', i)\n"
		"  end\n"
		"  return eventd.call('answers', 'noted') end }");
	two_add(&two, rig_lua_spec(rig, "answers",
			      "local n = 0\n"
			      "return { echo = function(d) return d end,\n"
			      "  note = function() n = n + 1 end,\n"
			      "  noted = function()\n"
			      "    eventd.sleep(0.001) return n end,\n"
			      "  boom = function() error('boom') end }"));
	two_start(&two, rig);
	snprintf(text, sizeof(text), "%d", ROUNDS);
	assert_string_equal(two_call(&two, "asks", "x", text), text);
	assert_non_null(
		strstr(two_call(&two, "ping", "run", text), " events, "));
	assert_non_null(
		strstr(two_call(&two, "ping", "run-by-id", text), "events"));
	two_call(&two, "answers", "boom", "");
	assert_int_equal(rig->status, EVD_STATUS_DIED);
	two_stop(&two);
}

/* What one asks of a mailbox on the other's thread, and the other way round. */
static void
test_mailboxes_of_two_threads(void **state)
{
	static const char boss[] =
		"return { x = function(of)\n"
		"  local q, d = eventd.queue, eventd.dead\n"
		"  for i = 1, 200 do\n"
		"    assert(q.pause(of))\n"
		"    eventd.post(of, 'what', i)\n"
		"    eventd.post(of, 'note', i)\n"
		"    while #assert(q.peek(of, {bytes = 9})) < 2 do end\n"
		"    assert(q.purge(of, 'note') == 1)\n"
		"    assert(q.resume(of))\n"
		"    while #assert(d.list{of = of}) < 1 do end\n"
		"    assert(d.purge(nil, {all = true}) >= 1)\n"
		"    assert(eventd.profile(of, i % 2 == 0))\n"
		"  end\n"
		"  return 'ok' end, note = function() end }";
	static struct two two;
	struct rig *rig = *state;
	struct session_spec *specs[2];

	assert_int_equal(
		sched_init(&two.other, &rig->k, 1, &rig_executor, NULL), 0);
	for (unsigned i = 0; i < 2; i++) {
		specs[i] = rig_lua_spec(rig, i ? "b" : "a", boss);
		specs[i]->manage_others = true;
	}
	rig_start(rig, specs[0]);
	two_add(&two, specs[1]);
	two_start(&two, rig);
	assert_string_equal(two_call(&two, "a", "x", "b"), "ok");
	assert_string_equal(two_call(&two, "b", "x", "a"), "ok");
	two_stop(&two);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_sessions_of_two_threads, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(
			test_mailboxes_of_two_threads, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
