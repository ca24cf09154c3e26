/* daemon/base/list.h */
#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

struct item {
	int number;
	struct list link;
};

static int
number_of(struct list *l)
{
	return container_of(l, struct item, link)->number;
}

static void
test_appended_nodes_are_walked_in_order(void **state)
{
	struct list head;
	struct item items[3];
	int n = 0;

	(void)state;
	list_init(&head);
	assert_true(list_is_empty(&head));
	for (int i = 0; i < 3; i++) {
		items[i].number = i;
		list_append(&head, &items[i].link);
	}
	assert_false(list_is_empty(&head));
	LIST_FOREACH (l, &head)
		assert_int_equal(number_of(l), n++);
	assert_int_equal(n, 3);
}

static void
test_a_node_may_be_removed_twice_and_while_walking(void **state)
{
	struct list head;
	struct item items[3];

	(void)state;
	list_init(&head);
	for (int i = 0; i < 3; i++) {
		items[i].number = i;
		list_append(&head, &items[i].link);
	}
	list_remove(&items[1].link);
	list_remove(&items[1].link);
	assert_int_equal(number_of(head.next), 0);
	assert_int_equal(number_of(head.prev), 2);
	LIST_FOREACH (l, &head)
		list_remove(l);
	assert_true(list_is_empty(&head));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_appended_nodes_are_walked_in_order),
		cmocka_unit_test(
			test_a_node_may_be_removed_twice_and_while_walking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
