/* daemon/exec/loop.c and the kernel between threads: more than a million
 * posts, acks and calls over four loops, each once and in order. */
#include <stdlib.h>

#include "fixture.h"

/* B38 */
static void
test_four_loops_pass_all_once_and_in_order(void **state)
{
	struct rig *rig = *state;
	struct crowd *c = crowd_new(rig, &(struct crowd_plan){.each = 80000,
						 .batch = 100,
						 .call_every = 64,
						 .ack_every = 16});

	rig_start(rig);
	crowd_await(c);
	crowd_check(c);
	free(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_four_loops_pass_all_once_and_in_order, setup_four,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
