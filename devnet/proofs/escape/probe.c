/* What a stranger's program tries of the kernel, from inside a container: one word says what, one line says how it went.
 * "NAME: refused ERROR" or "NAME: DONE"; numbers where something is counted. Static, so that any image can hold it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/if_packet.h>
#include <linux/perf_event.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *name, long result)
{
    if (result < 0)
        printf("%s: refused %s\n", name, strerrorname_np(errno));
    else
        printf("%s: DONE\n", name);
    fflush(stdout);
}

static void sockets(void)
{
    tell("raw socket", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
    tell("raw ip socket", socket(AF_INET, SOCK_RAW, IPPROTO_RAW));
    tell("packet socket", socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)));
    tell("raw ipv6 socket", socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6));
}

static void devices(void)
{
    static const char *const folders[] = {"/dev", "/tmp", "/workspace", "/out", "/dev/shm"};
    for (unsigned place = 0; place < sizeof folders / sizeof *folders; place++) {
        char path[64], name[64];
        snprintf(path, sizeof path, "%s/probe", folders[place]);
        snprintf(name, sizeof name, "disk node in %s", folders[place]);
        tell(name, mknod(path, S_IFBLK | 0666, makedev(254, 0)));
        snprintf(name, sizeof name, "memory node in %s", folders[place]);
        tell(name, mknod(path, S_IFCHR | 0666, makedev(1, 1)));
    }
    static const char *const nodes[] = {"/dev/vda", "/dev/sda", "/dev/mem", "/dev/kmsg", "/dev/loop-control",
                                        "/dev/kvm", "/dev/fuse", "/proc/kcore", "/image-disk", "/image-memory"};
    for (unsigned node = 0; node < sizeof nodes / sizeof *nodes; node++)
        tell(nodes[node], open(nodes[node], O_RDONLY));
}

static void mounts(void)
{
    tell("mount tmpfs", mount("tmpfs", "/tmp", "tmpfs", 0, ""));
    tell("mount proc", mount("proc", "/tmp", "proc", 0, ""));
    tell("remount root", mount("", "/", "", MS_REMOUNT | MS_BIND, ""));
    tell("bind proc", mount("/proc", "/tmp", "", MS_BIND | MS_REC, ""));
    tell("unmount proc/sys", umount2("/proc/sys", MNT_DETACH));
    tell("unmount in", umount2("/in", MNT_DETACH));
    tell("new mount namespace", unshare(CLONE_NEWNS));
    tell("new user namespace", unshare(CLONE_NEWUSER));
    tell("new user and mount namespace", unshare(CLONE_NEWUSER | CLONE_NEWNS));
    tell("new network namespace", unshare(CLONE_NEWNET));
    tell("chroot", chroot("/tmp"));
    tell("pivot_root", syscall(SYS_pivot_root, "/tmp", "/tmp"));
    tell("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
    tell("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
    int own = open("/proc/self/ns/mnt", O_RDONLY);
    tell("setns", setns(own, CLONE_NEWNS));
}

static void calls(void)
{
    char handle[16] = {8, 0, 0, 0, 1, 0, 0, 0, 2};
    union bpf_attr program = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    struct perf_event_attr event = {.type = PERF_TYPE_HARDWARE, .size = sizeof event};
    struct timeval then = {.tv_sec = 1};
    tell("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &program, sizeof program));
    tell("keyctl", syscall(SYS_keyctl, 0, -3, 0));
    tell("add_key", syscall(SYS_add_key, "user", "probe", "x", 1, -3));
    tell("perf_event_open", syscall(SYS_perf_event_open, &event, -1, 0, -1, 0));
    tell("userfaultfd", syscall(SYS_userfaultfd, 0));
    tell("open_by_handle_at", syscall(SYS_open_by_handle_at, AT_FDCWD, handle, O_RDONLY));
    tell("init_module", syscall(SYS_init_module, "", 0, ""));
    tell("kexec_load", syscall(SYS_kexec_load, 0, 0, 0, 0));
    tell("reboot", reboot(RB_ENABLE_CAD));
    tell("swapon", swapon("/tmp/x", 0));
    tell("settimeofday", settimeofday(&then, NULL));
    tell("sethostname", sethostname("x", 1));
    tell("syslog", syscall(SYS_syslog, 3, handle, 8));
    tell("ioperm", syscall(SYS_ioperm, 0x80, 1, 1));
    tell("acct", syscall(SYS_acct, "/tmp/x"));
    tell("quotactl", syscall(SYS_quotactl, 0, "/dev/vda", 0, 0));
    tell("lookup_dcookie", syscall(SYS_lookup_dcookie, 0, handle, 8));
    tell("nice -20", syscall(SYS_setpriority, 0, 0, -20));
    tell("real time", sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}));
}

static void users(void)
{
    tell("setuid 0", setuid(0));
    tell("setgid 0", setgid(0));
    tell("setgroups", syscall(SYS_setgroups, 0, NULL));
    tell("chown", chown("/workspace", 0, 0));
    printf("user %d %d\n", (int)getuid(), (int)geteuid());
}

static void others(void)
{
    int seen = 0;
    for (int number = 1; number < 65536; number++) {
        if (number == getpid() || number == getppid() || number == 1 || kill(number, 0) < 0)
            continue;
        seen++;
        tell("ptrace of another", ptrace(PTRACE_SEIZE, number, 0, 0));
    }
    printf("others %d\n", seen);
    tell("kill everybody", kill(-1, 0));
    tell("proc 1 root", chdir("/proc/1/root/root"));
}

static void files(void)
{
    int count = 0;
    while (open("/dev/null", O_RDONLY) >= 0)
        count++;
    printf("files %d %s\n", count, strerrorname_np(errno));
    fflush(stdout);
    for (int children = 0; children < 64; children++)
        if (fork() == 0)
            pause();
    sleep(3);
    kill(0, SIGKILL);
}

static void bomb(void)
{
    for (;;)
        if (fork() < 0)
            usleep(100);
}

static void processes(void)
{
    int count = 0, child;
    while ((child = fork()) > 0)
        count++;
    if (child == 0) {
        pause();
        _exit(0);
    }
    printf("processes %d %s\n", count, strerrorname_np(errno));
    fflush(stdout);
    sleep(2);
    kill(0, SIGKILL);
}

static void memory(void)
{
    for (long count = 1;; count++) {
        char *piece = malloc(1 << 20);
        if (piece == NULL)
            break;
        memset(piece, 1, 1 << 20);
        if (count % 16 == 0) {
            printf("megabytes %ld\n", count);
            fflush(stdout);
        }
    }
}

static void reach(int count, char **places)
{
    for (int place = 0; place + 1 < count; place += 2) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(places[place + 1]))};
        char name[64];
        inet_pton(AF_INET, places[place], &to.sin_addr);
        snprintf(name, sizeof name, "%s:%s", places[place], places[place + 1]);
        int connection = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = 0;
        socklen_t length = sizeof error;
        struct pollfd ready = {.fd = connection, .events = POLLOUT};
        if (connect(connection, (struct sockaddr *)&to, sizeof to) < 0 && errno == EINPROGRESS) {
            if (poll(&ready, 1, 700) == 0)
                error = ETIMEDOUT;
            else
                getsockopt(connection, SOL_SOCKET, SO_ERROR, &error, &length);
        } else
            error = errno;
        errno = error;
        tell(name, error ? -1 : 0);
        close(connection);
    }
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    if (!strcmp(what, "sockets"))
        sockets();
    else if (!strcmp(what, "devices"))
        devices();
    else if (!strcmp(what, "mounts"))
        mounts();
    else if (!strcmp(what, "calls"))
        calls();
    else if (!strcmp(what, "users"))
        users();
    else if (!strcmp(what, "others"))
        others();
    else if (!strcmp(what, "files"))
        files();
    else if (!strcmp(what, "bomb"))
        bomb();
    else if (!strcmp(what, "processes"))
        processes();
    else if (!strcmp(what, "memory"))
        memory();
    else if (!strcmp(what, "reach"))
        reach(count - 2, words + 2);
    else
        return 2;
    return 0;
}
