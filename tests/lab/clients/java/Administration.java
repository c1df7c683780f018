import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.ResourceNotFoundException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;

/** Admin calls of the scenarios. */
final class Administration {
    interface Call {
        void of(Driver.Work work, Admin admin) throws Exception;
    }

    static final Map<String, Driver.Play> PLAYS = new HashMap<>();

    static {
        add("topics", Administration::topics);
        add("partitions", Administration::partitions);
        add("incremental-configs", Administration::incrementalConfigs);
        add("acls", Administration::acls);
        add("quotas", Administration::quotas);
        add("scram", Administration::scram);
        add("groups", Administration::groups);
        add("offsets", Administration::offsets);
        add("delete-records", Administration::deleteRecords);
        add("list-offsets", Administration::listOffsets);
        add("cluster", Administration::cluster);
        add("elections", Administration::elections);
        add("log-dirs", Administration::logDirs);
        add("producers", Administration::producers);
        add("transactions", Administration::transactions);
        add("reassignments", Administration::reassignments);
    }

    private Administration() {
    }

    private static void add(String does, Call call) {
        PLAYS.put(does, work -> {
            try (Admin admin = Admin.create(work.settings())) {
                call.of(work, admin);
            }
        });
    }

    private static TopicPartition filled(Driver.Work work, Object... more) throws Exception {
        TopicPartition part = new TopicPartition(Data.aTopic(work, 1, ""), 0);
        Data.deliver(work, part, more);
        return part;
    }

    private static void topics(Driver.Work work, Admin admin) throws Exception {
        String name = Data.aTopic(work, 3, "");
        var options = new DescribeTopicsOptions().includeAuthorizedOperations(true);
        var told = admin.describeTopics(List.of(name), options).allTopicNames().get().get(name);
        Driver.equal(3, told.partitions().size());
        Driver.check(told.authorizedOperations().contains(AclOperation.WRITE), told);
        admin.deleteTopics(List.of(name)).all().get();
        Driver.until(() -> !admin.listTopics().names().get().contains(name));
    }

    private static void partitions(Driver.Work work, Admin admin) throws Exception {
        String name = Data.aTopic(work, 1, "");
        admin.createPartitions(Map.of(name, NewPartitions.increaseTo(4))).all().get();
        Driver.until(() -> admin.describeTopics(List.of(name)).allTopicNames().get().get(name)
            .partitions().size() == 4);
    }

    private static void incrementalConfigs(Driver.Work work, Admin admin) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, Data.aTopic(work, 1, ""));
        for (var op : List.of(AlterConfigOp.OpType.SET, AlterConfigOp.OpType.DELETE)) {
            var change = new AlterConfigOp(new ConfigEntry("retention.ms", "3600000"), op);
            admin.incrementalAlterConfigs(Map.of(topic, List.of(change))).all().get();
            String wanted = op == AlterConfigOp.OpType.SET ? "3600000" : "604800000";
            Driver.until(() -> admin.describeConfigs(List.of(topic)).all().get().get(topic)
                .get("retention.ms").value().equals(wanted));
        }
    }

    private static void acls(Driver.Work work, Admin admin) throws Exception {
        String principal = "User:" + work.name();
        AclBinding binding = new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, work.name(), PatternType.PREFIXED),
            new AccessControlEntry(principal, "*", AclOperation.READ, AclPermissionType.ALLOW));
        AclBindingFilter filter = new AclBindingFilter(
            new ResourcePatternFilter(ResourceType.TOPIC, work.name() + "-x", PatternType.MATCH),
            new AccessControlEntryFilter(principal, null, AclOperation.ANY, AclPermissionType.ANY));
        admin.createAcls(List.of(binding)).all().get();
        Driver.until(() -> List.copyOf(admin.describeAcls(filter).values().get()).equals(List.of(binding)));
        Driver.equal(List.of(binding), List.copyOf(admin.deleteAcls(List.of(filter)).all().get()));
        Driver.until(() -> admin.describeAcls(filter).values().get().isEmpty());
    }

    private static void quotas(Driver.Work work, Admin admin) throws Exception {
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of("user", work.name()));
        ClientQuotaFilter filter = ClientQuotaFilter.contains(
            List.of(ClientQuotaFilterComponent.ofEntity("user", work.name())));
        for (Double limit : new Double[] {1e6, null}) {
            var change = new ClientQuotaAlteration.Op("producer_byte_rate", limit);
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(change)))).all().get();
            var wanted = limit == null ? Map.of() : Map.of(entity, Map.of("producer_byte_rate", limit));
            Driver.until(() -> admin.describeClientQuotas(filter).entities().get().equals(wanted));
        }
    }

    private static void scram(Driver.Work work, Admin admin) throws Exception {
        String user = work.name();
        ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096);
        admin.alterUserScramCredentials(
            List.of(new UserScramCredentialUpsertion(user, info, "secret"))).all().get();
        Driver.until(() -> scramOf(admin, user).equals(List.of(info)));
        admin.alterUserScramCredentials(
            List.of(new UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512))).all().get();
        Driver.until(() -> scramOf(admin, user).isEmpty());
    }

    private static List<ScramCredentialInfo> scramOf(Admin admin, String user) throws Exception {
        try {
            return admin.describeUserScramCredentials(List.of(user)).description(user).get().credentialInfos();
        } catch (ExecutionException failure) {
            if (failure.getCause() instanceof ResourceNotFoundException) {
                return List.of();
            }
            throw failure;
        }
    }

    /** A group that has read all, committed less, and gone. */
    private static String consumed(Driver.Work work, TopicPartition part, String protocol) throws Exception {
        String group = work.name() + "-" + protocol;
        try (var consumer = Data.consumer(work, "group.id", group, "group.protocol", protocol)) {
            consumer.subscribe(List.of(part.topic()));
            Data.take(consumer, Data.COUNT);
            consumer.commitSync(Map.of(part, new OffsetAndMetadata(40)));
        }
        return group;
    }

    private static void groups(Driver.Work work, Admin admin) throws Exception {
        TopicPartition part = filled(work);
        for (JsonNode each : work.scenario().get("protocols")) {
            String protocol = each.asText();
            String group = consumed(work, part, protocol);
            Driver.check(listed(admin).contains(group), listed(admin));
            Driver.until(() -> admin.describeConsumerGroups(List.of(group)).all().get().get(group)
                .groupState() == GroupState.EMPTY);
            admin.deleteConsumerGroups(List.of(group)).all().get();
            Driver.check(!listed(admin).contains(group), listed(admin));
        }
    }

    private static Set<String> listed(Admin admin) throws Exception {
        return admin.listGroups().all().get().stream().map(GroupListing::groupId).collect(Collectors.toSet());
    }

    private static void offsets(Driver.Work work, Admin admin) throws Exception {
        TopicPartition part = filled(work);
        String group = consumed(work, part, "classic");
        Driver.equal(40L, committed(admin, group).get(part).offset());
        admin.alterConsumerGroupOffsets(group, Map.of(part, new OffsetAndMetadata(7))).all().get();
        Driver.equal(7L, committed(admin, group).get(part).offset());
        admin.deleteConsumerGroupOffsets(group, Set.of(part)).all().get();
        Driver.equal(Map.of(), committed(admin, group));
    }

    private static Map<TopicPartition, OffsetAndMetadata> committed(Admin admin, String group)
            throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }

    private static void deleteRecords(Driver.Work work, Admin admin) throws Exception {
        TopicPartition part = filled(work);
        var deleted = admin.deleteRecords(Map.of(part, RecordsToDelete.beforeOffset(30)));
        Driver.equal(30L, deleted.lowWatermarks().get(part).get().lowWatermark());
    }

    private static void listOffsets(Driver.Work work, Admin admin) throws Exception {
        TopicPartition part = filled(work);
        Driver.equal(0L, offset(admin, part, OffsetSpec.earliest()));
        Driver.equal(100L, offset(admin, part, OffsetSpec.latest()));
        Driver.equal(0L, offset(admin, part, OffsetSpec.forTimestamp(1)));
        Driver.check(offset(admin, part, OffsetSpec.maxTimestamp()) < 100, "of the newest");
        Driver.equal(0L, offset(admin, part, OffsetSpec.earliestLocal()));
    }

    private static long offset(Admin admin, TopicPartition part, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(part, spec)).partitionResult(part).get().offset();
    }

    private static void cluster(Driver.Work work, Admin admin) throws Exception {
        var told = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
        Driver.equal(List.of(work.login().get("bootstrap").asText()),
            told.nodes().get().stream().map(node -> node.host() + ":" + node.port()).toList());
        Driver.check(told.authorizedOperations().get().contains(AclOperation.ALTER), told);
        Driver.check(told.clusterId().get() != null, told);
    }

    private static void elections(Driver.Work work, Admin admin) throws Exception {
        TopicPartition part = new TopicPartition(Data.aTopic(work, 1, ""), 0);
        var told = admin.electLeaders(ElectionType.PREFERRED, Set.of(part)).partitions().get();
        Driver.check(told.get(part).orElseThrow() instanceof ElectionNotNeededException, told);
    }

    private static void logDirs(Driver.Work work, Admin admin) throws Exception {
        TopicPartition part = filled(work);
        var told = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1);
        Driver.check(told.values().stream().anyMatch(dir -> dir.replicaInfos().get(part) != null
            && dir.replicaInfos().get(part).size() > 0), told);
    }

    private static void producers(Driver.Work work, Admin admin) throws Exception {
        TopicPartition part = filled(work);
        var told = admin.describeProducers(List.of(part)).partitionResult(part).get();
        Driver.equal(List.of(99), told.activeProducers().stream().map(p -> p.lastSequence()).toList());
    }

    private static void transactions(Driver.Work work, Admin admin) throws Exception {
        TopicPartition part = new TopicPartition(Data.aTopic(work, 1, ""), 0);
        String id = work.name() + "-id";
        try (var producer = Data.producer(work, "transactional.id", id)) {
            producer.initTransactions();
            producer.beginTransaction();
            Data.send(producer, part, Data.values(1));
            Driver.check(admin.listTransactions().all().get().stream()
                .anyMatch(listing -> listing.transactionalId().equals(id)), "not listed");
            var told = admin.describeTransactions(List.of(id)).description(id).get();
            Driver.equal(Set.of(part), told.topicPartitions());
            admin.fenceProducers(List.of(id)).all().get();
        }
    }

    private static void reassignments(Driver.Work work, Admin admin) throws Exception {
        TopicPartition part = new TopicPartition(Data.aTopic(work, 1, ""), 0);
        admin.alterPartitionReassignments(
            Map.of(part, Optional.of(new NewPartitionReassignment(List.of(1))))).all().get();
        Driver.equal(Map.of(), admin.listPartitionReassignments(Set.of(part)).reassignments().get());
    }
}
