/* proc_labels_test.c - jobs, ranks, pods and containers by what launchers and drivers of control
 * groups leave: paths as each of them makes them.
 *
 * links: symbolize base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbolize/proc_labels.h"

#define ID  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID "0f1e2d3c-0000-1111-2222-333344445555"

#define ENV(l, text)                                                                               \
	do {                                                                                       \
		proc_labels_init(l);                                                               \
		proc_labels_of_environ(l, text, sizeof(text));                                     \
	} while (0)

static void of_group(struct proc_labels *l, const char *text)
{
	proc_labels_init(l);
	proc_labels_of_cgroup(l, text, strlen(text));
}

static void launchers(void **state)
{
	struct proc_labels l;
	(void)state;
	ENV(&l, "HOME=/root\0RANK=3\0LOCAL_RANK=1\0WORLD_SIZE=8\0TORCHELASTIC_RUN_ID=none\0");
	assert_true(l.rank == 3 && l.local_rank == 1 && l.world_size == 8);
	assert_string_equal(l.job, ""); /* torchrun's word for none */
	ENV(&l, "SLURM_PROCID=5\0SLURM_LOCALID=1\0SLURM_NTASKS=16\0SLURM_JOB_ID=4711\0");
	assert_true(l.rank == 5 && l.local_rank == 1 && l.world_size == 16);
	assert_string_equal(l.job, "4711");
	assert_string_equal(l.launcher, "slurm");
	/* srun starts torchrun: the ranks are torchrun's, the job is Slurm's */
	ENV(&l, "SLURM_PROCID=1\0SLURM_JOB_ID=4711\0RANK=9\0TORCHELASTIC_RUN_ID=abc\0");
	assert_int_equal(l.rank, 9);
	assert_string_equal(l.job, "4711");
	ENV(&l, "OMPI_COMM_WORLD_RANK=2\0OMPI_COMM_WORLD_LOCAL_RANK=0\0OMPI_COMM_WORLD_SIZE=4\0");
	assert_true(l.rank == 2 && l.local_rank == 0 && l.world_size == 4);
}

static void of_each_launcher(void **state)
{
	static const struct {
		const char *env; /* entries end in ';' here */
		int rank, local_rank, world_size;
		const char *job, *launcher;
	} cases[] = {
		{"TORCHELASTIC_RUN_ID=run-7;RANK=1;LOCAL_RANK=1;WORLD_SIZE=2;", 1, 1, 2, "run-7",
		 "torchrun"},
		{"RAY_JOB_ID=02000000;", -1, -1, -1, "02000000", "ray"},
		/* a worker of Ray Train */
		{"RAY_JOB_ID=02000000;RANK=6;LOCAL_RANK=2;WORLD_SIZE=8;", 6, 2, 8, "02000000",
		 "ray"},
		{"PBS_JOBID=17.head;", -1, -1, -1, "17.head", "pbs"},
		{"LSB_JOBID=815;", -1, -1, -1, "815", "lsf"},
		/* mpiexec of MPICH and of Intel, in a job of PBS */
		{"PBS_JOBID=17.head;PMI_RANK=3;PMI_SIZE=4;MPI_LOCALRANKID=1;", 3, 1, 4, "17.head",
		 "pbs"},
		/* mpirun of Open MPI in a job of LSF */
		{"LSB_JOBID=815;OMPI_COMM_WORLD_RANK=2;OMPI_COMM_WORLD_LOCAL_RANK=0;"
		 "OMPI_COMM_WORLD_SIZE=4;",
		 2, 0, 4, "815", "lsf"},
		{"SLURM_JOB_ID=4711;RAY_JOB_ID=02000000;", -1, -1, -1, "4711", "slurm"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct proc_labels l;
		char env[256];
		size_t len = strlen(cases[i].env);
		memcpy(env, cases[i].env, len);
		for (size_t k = 0; k < len; k++)
			env[k] = env[k] == ';' ? 0 : env[k];
		proc_labels_init(&l);
		proc_labels_of_environ(&l, env, len);
		assert_int_equal(l.rank, cases[i].rank);
		assert_int_equal(l.local_rank, cases[i].local_rank);
		assert_int_equal(l.world_size, cases[i].world_size);
		assert_string_equal(l.job, cases[i].job);
		assert_string_equal(l.launcher, cases[i].launcher);
	}
}

static void chosen(void **state)
{
	static const struct chosen_labels c = {
		.list = {{.name = "team", .value = "vision"},
			 {.name = "project", .variable = "WANDB_PROJECT"},
			 {.name = "queue", .variable = "QUEUE"},
			 {.name = "long", .variable = "LONG"}},
		.len = 4};
	struct proc_labels l;
	char env[300] = "WANDB_PROJECT=gpt\0XQUEUE=a\0QUEUE=\0SECRET=x\0LONG=";
	(void)state;
	memset(env + 48, 'x', 200);
	proc_labels_init(&l);
	l.chosen = &c;
	proc_labels_of_environ(&l, env, sizeof(env));
	assert_string_equal(proc_labels_value(&l, 0), "vision");
	assert_string_equal(proc_labels_value(&l, 1), "gpt");
	assert_null(proc_labels_value(&l, 2)); /* empty */
	assert_int_equal(strlen(proc_labels_value(&l, 3)), CHOSEN_BYTES - 1);
	ENV(&l, "WANDB_PROJECT=gpt\0"); /* nobody chose */
	assert_string_equal(l.values[1], "");
	proc_labels_read(&l, "/nowhere", getpid(), &c);
	assert_string_equal(proc_labels_value(&l, 0), "vision");
	assert_null(proc_labels_value(&l, 1));
}

static void no_numbers(void **state)
{
	struct proc_labels l;
	(void)state;
	ENV(&l, "RANK=\0LOCAL_RANK=-1\0WORLD_SIZE=99999999999\0XRANK=4\0RANKS=4\0RANK");
	assert_true(l.rank == -1 && l.local_rank == -1 && l.world_size == -1);
	proc_labels_of_environ(&l, "RANK=7", 6); /* cut off */
	assert_int_equal(l.rank, -1);
}

static void pods_and_containers(void **state)
{
	struct proc_labels l;
	(void)state;
	of_group(&l, "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
		     "0f1e2d3c_0000_1111_2222_333344445555.slice/cri-containerd-" ID ".scope\n");
	assert_string_equal(l.pod_uid, UID);
	assert_string_equal(l.container, ID);
	of_group(&l, "12:cpu,cpuacct:/kubepods/besteffort/pod" UID "/" ID "\n1:name=systemd:/\n");
	assert_string_equal(l.pod_uid, UID);
	assert_string_equal(l.container, ID);
	of_group(&l, "0::/system.slice/docker-" ID ".scope\n");
	assert_string_equal(l.container, ID);
	assert_string_equal(l.pod_uid, "");
	of_group(&l, "0::/machine.slice/libpod-" ID ".scope/container\n");
	assert_string_equal(l.container, ID);
	of_group(&l, "0::/user.slice/user-1000.slice/session-2.scope\n");
	assert_true(!l.container[0] && !l.pod_uid[0] && !l.job[0]);
	of_group(&l, "0::/podman/tripod-of-three-legs-and-some-more-characters-of-no-number\n");
	assert_true(!l.pod_uid[0]);
}

static void slurm_by_group(void **state)
{
	struct proc_labels l;
	(void)state;
	of_group(&l, "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n");
	assert_string_equal(l.job, "4711");
	assert_string_equal(l.launcher, "slurm");
	of_group(&l, "0::/job_/step_0\n1::/job_47x\n");
	assert_string_equal(l.job, "");
}

static void of_this_process(void **state)
{
	struct proc_labels l;
	(void)state;
	proc_labels_read(&l, "/proc", getpid(), NULL);
	proc_labels_read(&l, "/nowhere", getpid(), NULL);
	assert_true(l.rank == -1 && !l.container[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(launchers),	       cmocka_unit_test(no_numbers),
		cmocka_unit_test(of_each_launcher),    cmocka_unit_test(chosen),
		cmocka_unit_test(pods_and_containers), cmocka_unit_test(slurm_by_group),
		cmocka_unit_test(of_this_process),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
