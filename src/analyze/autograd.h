/* autograd.h - which operator of the forward pass each node of a backward pass belongs to.
 *
 * PyTorch numbers the nodes in the order in which the forward pass makes them
 * (torch/csrc/autograd/function.h, Node::sequence_nr), and a node is named after its operator:
 * aten::addmm makes AddmmBackward0. So the nodes of one pass, in the order of their numbers, and
 * the operators since the pass before, in the order of time, are two sequences of names; their
 * longest common subsequence links them. What has no partner - operators under no_grad, the
 * optimizer's, nodes of views, which are not recorded unless asked for - stays without.
 *
 * Assumes that a backward pass follows its forward pass before the next one ends. Does no output.
 */
#pragma once

#include <stdint.h>

#include "base/buffer.h"
#include "analyze/torch_calls.h"

struct autograd_link {
	uint32_t node_thread, operator_thread; /* indexes into the thread table */
	uint64_t node_start_ns;
	uint64_t operator_start_ns;
	uint32_t operator_probe;
	uint32_t node_probe;
	/* The operator's place in its pass: the same in passes whose sequences are the same. */
	uint64_t place;
	/* Its neighbours in its pass, by name: the same for operators of layers that are alike. */
	uint64_t neighbours;
};

struct autograd_links {
	VEC(struct autograd_link) rows; /* by node_thread, then node_start_ns */
	uint64_t nodes;			/* that had a number; AccumulateGrad has none */
};

void autograd_links_find(struct autograd_links *ret, const struct torch_calls *c);
/* pid: only this process; 0 = all. Blocks that cannot be read are left out. */
void autograd_links_make(struct autograd_links *ret, const struct row_source *s, uint32_t pid);
void autograd_links_free(struct autograd_links *l);

/* The link of the node that began then on that thread, or NULL. */
const struct autograd_link *autograd_link_of(const struct autograd_links *l, uint32_t thread,
					     uint64_t start_ns);

/* A name as both sides share it: "aten::_log_softmax" and "LogSoftmaxBackward0" are
 * "logsoftmax". ret is cut at size, "" for a node that has no operator. */
void autograd_operator_key(char *ret, size_t size, const char *name);
void autograd_node_key(char *ret, size_t size, const char *name);
