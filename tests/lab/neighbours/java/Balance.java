import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Does what Cruise Control does to move replicas, with one AdminClient: arguments file, topic.
 *
 * It reads the cluster, its log directories and the configs of its brokers, sets throttles, moves each replica to the next broker,
 * waits until nothing moves, elects the preferred leaders and removes the throttles. It prints `partition: replicas, leader`.
 */
public final class Balance {
    private static final String RATE = "leader.replication.throttled.rate";
    private static final String THROTTLED = "leader.replication.throttled.replicas";

    private Balance() {
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (InputStream file = Files.newInputStream(Path.of(arguments[0]))) {
            settings.load(file);
        }
        try (Admin admin = Admin.create(settings)) {
            List<Integer> brokers = admin.describeCluster().nodes().get().stream().map(Node::id).sorted().toList();
            admin.describeLogDirs(brokers).allDescriptions().get();
            admin.describeConfigs(resources(brokers, arguments[1])).all().get();
            throttle(admin, brokers, arguments[1], AlterConfigOp.OpType.SET);
            Map<TopicPartition, Optional<NewPartitionReassignment>> moves = moves(described(admin, arguments[1]), brokers);
            admin.alterPartitionReassignments(moves).all().get();
            while (!admin.listPartitionReassignments(moves.keySet()).reassignments().get().isEmpty()) Thread.sleep(200);
            admin.electLeaders(ElectionType.PREFERRED, moves.keySet()).partitions().get();
            throttle(admin, brokers, arguments[1], AlterConfigOp.OpType.DELETE);
            for (TopicPartitionInfo partition : described(admin, arguments[1]).partitions())
                System.out.println(partition.partition() + ": " + ids(partition.replicas()) + ", " + partition.leader().id());
        }
    }

    private static TopicDescription described(Admin admin, String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    private static Map<TopicPartition, Optional<NewPartitionReassignment>> moves(TopicDescription topic, List<Integer> brokers) {
        Map<TopicPartition, Optional<NewPartitionReassignment>> moves = new HashMap<>();
        for (TopicPartitionInfo partition : topic.partitions()) {
            List<Integer> next = ids(partition.replicas()).stream()
                .map(id -> brokers.get((brokers.indexOf(id) + 1) % brokers.size())).toList();
            moves.put(new TopicPartition(topic.name(), partition.partition()), Optional.of(new NewPartitionReassignment(next)));
        }
        return moves;
    }

    private static List<Integer> ids(List<Node> replicas) {
        return replicas.stream().map(Node::id).toList();
    }

    private static List<ConfigResource> resources(List<Integer> brokers, String topic) {
        List<ConfigResource> resources = new ArrayList<>();
        for (int broker : brokers) resources.add(new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(broker)));
        resources.add(new ConfigResource(ConfigResource.Type.TOPIC, topic));
        return resources;
    }

    private static void throttle(Admin admin, List<Integer> brokers, String topic, AlterConfigOp.OpType change)
        throws Exception {
        Map<ConfigResource, Collection<AlterConfigOp>> changes = new HashMap<>();
        for (ConfigResource resource : resources(brokers, topic)) {
            ConfigEntry entry = resource.type() == ConfigResource.Type.TOPIC
                ? new ConfigEntry(THROTTLED, "*") : new ConfigEntry(RATE, "10000000");
            changes.put(resource, List.of(new AlterConfigOp(entry, change)));
        }
        admin.incrementalAlterConfigs(changes).all().get();
    }
}
