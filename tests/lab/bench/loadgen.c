// Raw Kafka frames from one epoll thread, so that the client costs next to nothing beside what is measured.
//
//   loadgen requests PORT CONNECTIONS WARM_S SECONDS TEMPLATE...   one request in flight on each connection
//   loadgen idle     PORT CONNECTIONS TEMPLATE...                  one request on each, then held until stdin ends
//   loadgen connect  PORT CONCURRENT TOTAL TEMPLATE...             connect, one request, its answer, close
//   loadgen paced    PORT CONNECTIONS PER_SECOND SECONDS TEMPLATE...   requests at a fixed rate, answered or not
//
// A template is a file that holds one whole request with its length prefix; only its correlation id is
// changed. An answer of another length than the first one ends the run: it is an error in disguise.
// `requests` prints START when the warm-up is over; each mode ends with one line of JSON. Latencies of `connect`
// begin when the connection is opened, those of `paced` when the request was due, so that none is left out
// because another one was late.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TEMPLATES = 16, MAX_TEMPLATE = 1 << 20, EVENTS = 1024, OPENING = 32, PER_ADDRESS = 8000, ADDRESSES = 20 };

enum { MAX_LATENCIES = 1 << 20 };

typedef struct {
  int fd, connected, template;
  double due;
  uint32_t correlation, head_bytes, missing;
  unsigned char head[4];
} Connection;

static unsigned char *templates[MAX_TEMPLATES];
static size_t template_bytes[MAX_TEMPLATES];
static int template_count, port, poll_fd;
static uint32_t answer_bytes;
static struct epoll_event events[EVENTS];

static void fail(const char *what) {
  fprintf(stderr, "loadgen: %s: %s\n", what, errno ? strerror(errno) : "-");
  exit(1);
}

static double now(void) {
  struct timespec moment;
  clock_gettime(CLOCK_MONOTONIC, &moment);
  return moment.tv_sec + moment.tv_nsec / 1e9;
}

static void load_templates(int count, char **paths) {
  if (count < 1 || count > MAX_TEMPLATES) fail("1 to 16 templates");
  for (template_count = 0; template_count < count; template_count++) {
    FILE *file = fopen(paths[template_count], "rb");
    if (!file) fail(paths[template_count]);
    templates[template_count] = malloc(MAX_TEMPLATE);
    template_bytes[template_count] = fread(templates[template_count], 1, MAX_TEMPLATE, file);
    fclose(file);
  }
}

// Sources spread over 127.0.0.2 and up: one address has too few ports for what is opened here.
static void open_connection(Connection *connection, int number, int flags) {
  int one = 1, spread = (number / PER_ADDRESS + number) % ADDRESSES;
  memset(connection, 0, sizeof *connection);
  connection->template = number % template_count;
  connection->due = now();
  connection->fd = socket(AF_INET, SOCK_STREAM | flags, 0);
  if (connection->fd < 0) fail("socket");
  setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(connection->fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
  struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002 + spread)};
  if (bind(connection->fd, (void *)&from, sizeof from)) fail("bind");
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (connect(connection->fd, (void *)&to, sizeof to) && errno != EINPROGRESS) fail("connect");
}

static void watch(Connection *connection, int operation, uint32_t what) {
  struct epoll_event event = {.events = what, .data.ptr = connection};
  if (epoll_ctl(poll_fd, operation, connection->fd, &event)) fail("epoll_ctl");
}

static void send_request(Connection *connection) {
  unsigned char *request = templates[connection->template];
  size_t bytes = template_bytes[connection->template];
  uint32_t correlation = htonl(++connection->correlation);
  memcpy(request + 8, &correlation, 4);
  if (send(connection->fd, request, bytes, 0) != (ssize_t)bytes) fail("send");
}

// The whole answers that arrived.
static int receive(Connection *connection) {
  static unsigned char buffer[1 << 18];
  ssize_t got = recv(connection->fd, buffer, sizeof buffer, 0);
  if (got < 0 && errno == EAGAIN) return 0;
  if (got <= 0) fail("closed by the peer");
  int whole = 0;
  for (ssize_t at = 0; at < got;) {
    if (connection->head_bytes < 4) {
      connection->head[connection->head_bytes++] = buffer[at++];
      if (connection->head_bytes < 4) continue;
      uint32_t length;
      memcpy(&length, connection->head, 4);
      connection->missing = ntohl(length);
      if (!answer_bytes) answer_bytes = connection->missing;
      if (connection->missing != answer_bytes) errno = 0, fail("an answer of another length than the first one");
      continue;
    }
    uint32_t part = got - at < connection->missing ? got - at : connection->missing;
    at += part;
    connection->missing -= part;
    if (!connection->missing) connection->head_bytes = 0, whole++;
  }
  return whole;
}

static float latencies[MAX_LATENCIES];
static long latency_count;

static void note_latency(double since) {
  if (latency_count < MAX_LATENCIES) latencies[latency_count++] = (now() - since) * 1e3;
}

static int compare(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static double percentile(double part) {
  long at = latency_count * part;
  return latency_count ? latencies[at < latency_count ? at : latency_count - 1] : 0;
}

static void tell(long count, double seconds) {
  qsort(latencies, latency_count, sizeof latencies[0], compare);
  printf("{\"count\": %ld, \"seconds\": %.4f, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"p999_ms\": %.3f, \"most_ms\": %.3f}\n",
         count, seconds, percentile(0.5), percentile(0.99), percentile(0.999), percentile(1));
  fflush(stdout);
}

static void run_requests(int count, double warm_s, double seconds) {
  Connection *connections = calloc(count, sizeof(Connection));
  for (int i = 0; i < count; i++) {
    open_connection(&connections[i], i, 0);
    watch(&connections[i], EPOLL_CTL_ADD, EPOLLIN);
    send_request(&connections[i]);
  }
  double from = now() + warm_s;
  int measuring = 0;
  long answered = 0;
  for (;;) {
    int ready = epoll_wait(poll_fd, events, EVENTS, 1000);
    double moment = now();
    if (!measuring && moment >= from) {
      measuring = 1, from = moment, answered = 0;
      printf("START\n");
      fflush(stdout);
    }
    if (measuring && moment >= from + seconds) break;
    for (int i = 0; i < ready; i++) {
      Connection *connection = events[i].data.ptr;
      for (int whole = receive(connection); whole; whole--, answered++) send_request(connection);
    }
  }
  tell(answered, now() - from);
}

static void run_idle(int count) {
  Connection *connections = calloc(count, sizeof(Connection));
  double from = now();
  for (int opened = 0, answered = 0; answered < count;) {
    for (; opened < count && opened - answered < OPENING; opened++) {
      open_connection(&connections[opened], opened, 0);
      watch(&connections[opened], EPOLL_CTL_ADD, EPOLLIN);
      send_request(&connections[opened]);
    }
    int ready = epoll_wait(poll_fd, events, EVENTS, 20000);
    if (!ready) errno = ETIMEDOUT, fail("no answer");
    for (int i = 0; i < ready; i++) answered += receive(events[i].data.ptr);
  }
  tell(count, now() - from);
  for (char byte; read(0, &byte, 1) > 0;) continue;
}

static void run_connect(int concurrent, int total) {
  Connection *connections = calloc(concurrent, sizeof(Connection));
  double from = now();
  int opened = 0, done = 0;
  for (; opened < concurrent; opened++) {
    open_connection(&connections[opened], opened, SOCK_NONBLOCK);
    watch(&connections[opened], EPOLL_CTL_ADD, EPOLLOUT);
  }
  while (done < total) {
    int ready = epoll_wait(poll_fd, events, EVENTS, 20000);
    if (!ready) errno = ETIMEDOUT, fail("no answer");
    for (int i = 0; i < ready; i++) {
      Connection *connection = events[i].data.ptr;
      if (!connection->connected) {
        connection->connected = 1;
        send_request(connection);
        watch(connection, EPOLL_CTL_MOD, EPOLLIN);
      } else if (receive(connection)) {
        close(connection->fd);
        note_latency(connection->due);
        done++;
        if (opened < total) {
          open_connection(connection, opened++, SOCK_NONBLOCK);
          watch(connection, EPOLL_CTL_ADD, EPOLLOUT);
        }
      }
    }
  }
  tell(done, now() - from);
}

// One request in flight on a connection: one that is due meanwhile waits, and its latency contains the wait.
static void run_paced(int count, double per_second, double seconds) {
  Connection *connections = calloc(count, sizeof(Connection));
  double *due = calloc(count, sizeof(double)), between = count / per_second, from = now();
  int *busy = calloc(count, sizeof(int));
  long done = 0;
  for (int i = 0; i < count; i++) {
    open_connection(&connections[i], i, 0);
    watch(&connections[i], EPOLL_CTL_ADD, EPOLLIN);
    due[i] = from + 0.2 + between * i / count;
  }
  double end = from + 0.2 + seconds;
  for (double moment = now(); moment < end; moment = now()) {
    double next = end;
    for (int i = 0; i < count; i++) {
      if (busy[i]) continue;
      if (due[i] <= moment) {
        connections[i].due = due[i];
        due[i] += between;
        busy[i] = 1;
        send_request(&connections[i]);
      } else if (due[i] < next) {
        next = due[i];
      }
    }
    double wait = next - now();
    struct timespec pause = {.tv_sec = wait > 0 ? (time_t)wait : 0, .tv_nsec = wait > 0 ? (long)((wait - (time_t)wait) * 1e9) : 0};
    int ready = epoll_pwait2(poll_fd, events, EVENTS, &pause, NULL);
    for (int i = 0; i < ready; i++) {
      Connection *connection = events[i].data.ptr;
      if (receive(connection)) {
        busy[connection - connections] = 0;
        note_latency(connection->due);
        done++;
      }
    }
  }
  tell(done, seconds);
}

int main(int count, char **words) {
  if (count < 5) return fprintf(stderr, "see the head of loadgen.c\n"), 2;
  port = atoi(words[2]);
  poll_fd = epoll_create1(0);
  int number = atoi(words[3]);
  if (!strcmp(words[1], "requests") && count > 6) {
    load_templates(count - 6, words + 6);
    run_requests(number, atof(words[4]), atof(words[5]));
  } else if (!strcmp(words[1], "idle")) {
    load_templates(count - 4, words + 4);
    run_idle(number);
  } else if (!strcmp(words[1], "connect") && count > 5) {
    load_templates(count - 5, words + 5);
    run_connect(number, atoi(words[4]));
  } else if (!strcmp(words[1], "paced") && count > 6) {
    load_templates(count - 6, words + 6);
    run_paced(number, atof(words[4]), atof(words[5]));
  } else {
    return fprintf(stderr, "see the head of loadgen.c\n"), 2;
  }
  return 0;
}
