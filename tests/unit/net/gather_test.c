/* Gather: requests that are under way when the daemon ends. */
#include <stdlib.h>

#include "fixture.h"
#include "kernel/kin.h"
#include "verb/gather.h"

static unsigned n_dropped;

static bool
never_visit(struct gather *g, struct sched *s)
{
	(void)g, (void)s;
	fail();
	return false;
}

static void
on_dropped(struct gather *g)
{
	assert_string_equal(g->name, "held");
	n_dropped++;
}

/* It is on its way to a scheduler that ends before it comes. */
static void
test_the_end_lets_go_of_what_is_under_way(void **state)
{
	struct kernel kernel;
	struct loop *loops = calloc(2, sizeof(*loops));
	struct peer peer = {NULL};
	struct gather *g;

	(void)state;
	assert_non_null(loops);
	assert_int_equal(
		kernel_init(&kernel, &kernel_limits_default, &clock_system), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(loop_init(&loops[i], &kernel, i), 0);
	peer.session = session_new(&loops[1].sched, &group_ops, NULL, NULL);
	assert_non_null(peer.session);
	g = gather_new(&peer, 1);
	assert_non_null(g);
	strcpy(g->name, "held");
	g->visit = never_visit;
	g->drop = on_dropped;
	gather_start(g, &loops[1].sched);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(loop_deinit(&loops[i]), 0);
	assert_int_equal(n_dropped, 1);
	kernel_deinit(&kernel);
	free(loops);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_end_lets_go_of_what_is_under_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
