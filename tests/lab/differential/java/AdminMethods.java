import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.utils.Time;

/**
 * Calls every method of Kafka's Admin as a user, and prints `method<tab>result` for each.
 *
 * A result is the value of each future, or the name of its exception. Ids, addresses and times are left out,
 * as they differ between clusters. Fails if the client has a method that is not called.
 */
public final class AdminMethods {
    interface Call {
        Object of() throws Exception;
    }

    private static final Pattern OF_ONE_CLUSTER = Pattern.compile(
        "(localhost|127\\.0\\.0\\.1)(:\\d+)?|port=\\d+|(?<![\\w-])(?!\\w*Exception)[\\w-]{22}(?![\\w-])"
            + "|(?i)\\w*(timestamp|offset|epoch|bytes|size|lag|dir)\\w*=(Optional\\w*\\[)?-?[\\w/.-]+\\]?");
    private static final Pattern OPERATIONS = Pattern.compile("\\[([A-Z_]+(, [A-Z_]+)+)\\]");
    private static final String OWN = "adm-own", READ = "t-alpha", HIDDEN = "x-gamma", MISSING = "t-ghost";
    private static final List<String> TOPICS = List.of(READ, HIDDEN, MISSING);
    private static final List<TopicPartition> PARTITIONS =
        TOPICS.stream().map(name -> new TopicPartition(name, 0)).collect(Collectors.toList());
    /** For methods that retry with a topic that is missing until their time is up. */
    private static final List<TopicPartition> EXISTING = PARTITIONS.subList(0, 2);
    private static final String GROUP = "adm-group", OTHER = "h-group";
    private static final List<String> GROUPS = List.of(GROUP, OTHER);

    private final Map<String, Call> calls = new LinkedHashMap<>();
    private final Admin admin;

    private AdminMethods(Admin admin) {
        this.admin = admin;
    }

    public static void main(String[] args) throws Exception {
        String login = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"%s\" password=\"%s\";";
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", args[0], "security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", "PLAIN",
            "sasl.jaas.config", String.format(login, args[1], args[2]), "default.api.timeout.ms", "40000");
        try (Admin admin = Admin.create(settings)) {
            AdminMethods methods = new AdminMethods(admin);
            methods.topics();
            methods.cluster();
            methods.security();
            methods.groups();
            methods.transactions();
            methods.own();
            methods.play();
        }
    }

    private void play() {
        Set<String> missing = new TreeSet<>();
        for (var method : Admin.class.getMethods()) {
            if (Modifier.isAbstract(method.getModifiers()) && !method.getName().equals("close")) {
                missing.add(method.getName());
            }
        }
        calls.keySet().forEach(name -> missing.remove(name.split(" ")[0]));
        if (!missing.isEmpty()) {
            throw new AssertionError("not called: " + missing);
        }
        calls.forEach((name, call) -> System.out.println(name + "\t" + told(call)));
    }

    private static String told(Call call) {
        try {
            return shown(call.of());
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            return error.getClass().getSimpleName();
        }
    }

    /** With the value of each future, and without what is of one cluster. */
    private static String shown(Object value) {
        if (value instanceof KafkaFuture<?> future) {
            return told(future::get);
        }
        if (value instanceof Map<?, ?> map) {
            Map<String, String> parts = new TreeMap<>();
            map.forEach((key, part) -> parts.put(shown(key), shown(part)));
            return parts.toString();
        }
        if (value instanceof Collection<?> many) {
            List<String> parts = new ArrayList<>(many.stream().map(AdminMethods::shown).toList());
            parts.removeIf(part -> part.contains("__"));
            parts.sort(null);
            return parts.toString();
        }
        String text = OF_ONE_CLUSTER.matcher(String.valueOf(value)).replaceAll("#").replaceAll("\\s+", " ");
        // The order of operations is that of a hash table.
        return OPERATIONS.matcher(text).replaceAll(found -> new TreeSet<>(List.of(found.group(1).split(", "))).toString());
    }

    private static <K, V> Map<K, V> each(Collection<K> keys, Function<K, V> value) {
        Map<K, V> found = new LinkedHashMap<>();
        keys.forEach(key -> found.put(key, value.apply(key)));
        return found;
    }

    private void topics() {
        ConfigResource own = new ConfigResource(ConfigResource.Type.TOPIC, OWN);
        List<ConfigResource> resources = List.of(
            own, new ConfigResource(ConfigResource.Type.TOPIC, MISSING),
            new ConfigResource(ConfigResource.Type.GROUP, GROUP));
        AlterConfigOp op = new AlterConfigOp(new ConfigEntry("retention.ms", "60000000"), AlterConfigOp.OpType.SET);
        calls.put("createTopics", () -> admin.createTopics(
            List.of(new NewTopic(OWN, 1, (short) 1), new NewTopic(READ, 1, (short) 1),
                new NewTopic("adm bad", 1, (short) 1), new NewTopic("x-more", 1, (short) 9))).values());
        calls.put("createPartitions", () -> admin.createPartitions(
            each(List.of(OWN, HIDDEN, MISSING), name -> NewPartitions.increaseTo(name.equals(OWN) ? 2 : 1))).values());
        calls.put("listTopics", () -> admin.listTopics().names());
        calls.put("listTopics internal", () -> admin.listTopics(new ListTopicsOptions().listInternal(true)).listings());
        calls.put("describeTopics", () -> admin.describeTopics(
            TOPICS, new DescribeTopicsOptions().includeAuthorizedOperations(true)).topicNameValues());
        calls.put("describeTopics pages", () -> admin.describeTopics(
            TOPICS, new DescribeTopicsOptions().partitionSizeLimitPerResponse(1)).topicNameValues());
        calls.put("describeTopics ids", () -> admin.describeTopics(
            TopicCollection.ofTopicIds(List.of(new Uuid(1, 2)))).topicIdValues().values());
        calls.put("incrementalAlterConfigs", () -> admin.incrementalAlterConfigs(
            each(resources, resource -> List.of(op))).values());
        calls.put("describeConfigs", () -> admin.describeConfigs(List.of(own)).values().values().stream()
            .map(future -> told(() -> future.get().get("retention.ms"))).toList());
        calls.put("listConfigResources", () -> admin.listConfigResources(
            Set.of(ConfigResource.Type.GROUP, ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions()).all());
        calls.put("listClientMetricsResources", () -> admin.listClientMetricsResources().all());
        calls.put("deleteRecords", () -> admin.deleteRecords(
            each(EXISTING, each -> RecordsToDelete.beforeOffset(0))).all());
        for (OffsetSpec spec : List.of(OffsetSpec.latest(), OffsetSpec.earliest(), OffsetSpec.maxTimestamp(),
                OffsetSpec.earliestLocal(), OffsetSpec.latestTiered(), OffsetSpec.forTimestamp(5))) {
            calls.put("listOffsets " + spec.getClass().getSimpleName(), () -> {
                ListOffsetsResult found = admin.listOffsets(each(PARTITIONS, each -> spec));
                return each(PARTITIONS, each -> told(() -> found.partitionResult(each).get().offset()));
            });
        }
        calls.put("describeProducers", () -> {
            DescribeProducersResult found = admin.describeProducers(EXISTING);
            return each(EXISTING, each -> told(() -> found.partitionResult(each).get().activeProducers().size()));
        });
    }

    private void cluster() {
        TopicPartition own = new TopicPartition(OWN, 0);
        TopicPartitionReplica replica = new TopicPartitionReplica(OWN, 0, 1);
        calls.put("describeCluster", () -> {
            DescribeClusterResult found = admin.describeCluster(
                new DescribeClusterOptions().includeAuthorizedOperations(true).includeFencedBrokers(true));
            return List.of(found.nodes(), found.clusterId(), found.authorizedOperations().thenApply(
                operations -> String.valueOf(operations == null ? null : new TreeSet<>(operations))));
        });
        calls.put("describeFeatures", () -> admin.describeFeatures().featureMetadata().thenApply(
            found -> new TreeMap<>(found.supportedFeatures()).toString()));
        calls.put("updateFeatures", () -> admin.updateFeatures(
            Map.of("nonsense", new FeatureUpdate((short) 2, FeatureUpdate.UpgradeType.UPGRADE)),
            new UpdateFeaturesOptions().validateOnly(true)).values());
        calls.put("describeMetadataQuorum", () -> admin.describeMetadataQuorum().quorumInfo().thenApply(
            found -> found.leaderId() + " " + found.voters().size()));
        calls.put("addRaftVoter", () -> admin.addRaftVoter(
            99, new Uuid(1, 2), Set.of(new RaftVoterEndpoint("CONTROLLER", "localhost", 9))).all());
        calls.put("removeRaftVoter", () -> admin.removeRaftVoter(99, new Uuid(1, 2)).all());
        calls.put("unregisterBroker", () -> admin.unregisterBroker(99).all());
        calls.put("unregisterController", () -> admin.unregisterController(99, new UnregisterControllerOptions()).all());
        calls.put("electLeaders", () -> admin.electLeaders(
            ElectionType.PREFERRED, new LinkedHashSet<>(PARTITIONS)).partitions().thenApply(
                found -> each(PARTITIONS, each -> String.valueOf(found.get(each).map(e -> e.getClass().getSimpleName()))).toString()));
        calls.put("alterPartitionReassignments", () -> admin.alterPartitionReassignments(Map.of(
            own, Optional.of(new NewPartitionReassignment(List.of(1))),
            PARTITIONS.get(2), Optional.of(new NewPartitionReassignment(List.of(1))))).values());
        calls.put("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments());
        calls.put("describeLogDirs", () -> admin.describeLogDirs(List.of(1)).descriptions().get(1).thenApply(
            found -> found.values().stream().map(dir -> dir.replicaInfos().keySet().stream().anyMatch(
                each -> each.topic().equals(READ))).toList().toString()));
        calls.put("describeReplicaLogDirs", () -> admin.describeReplicaLogDirs(List.of(replica)).values().get(replica).thenApply(
            found -> found.getCurrentReplicaLogDir() == null));
        calls.put("alterReplicaLogDirs", () -> admin.alterReplicaLogDirs(Map.of(replica, "/nowhere")).values());
        calls.put("clientInstanceId", () -> admin.clientInstanceId(Duration.ofSeconds(1)));
        KafkaMetric metric = new KafkaMetric(new Object(), new MetricName("a", "b", "c", Map.of()),
            (org.apache.kafka.common.metrics.Gauge<Integer>) (config, now) -> 1, new MetricConfig(), Time.SYSTEM);
        calls.put("registerMetricForSubscription", () -> {
            admin.registerMetricForSubscription(metric);
            return "done";
        });
        calls.put("unregisterMetricFromSubscription", () -> {
            admin.unregisterMetricFromSubscription(metric);
            return "done";
        });
        calls.put("metrics", () -> admin.metrics().isEmpty());
    }

    private static AclBinding acl(String host) {
        return new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, OWN, PatternType.LITERAL),
            new AccessControlEntry("User:nobody", host, AclOperation.READ, AclPermissionType.DENY));
    }

    private void security() {
        List<String> hosts = List.of("10.0.0.0/8", "10.9.9.9/33", "2001:db8::/32", "*");
        calls.put("createAcls", () -> {
            var found = admin.createAcls(hosts.stream().map(AdminMethods::acl).toList()).values();
            return each(hosts, host -> found.get(acl(host)));
        });
        for (String host : Arrays.asList("10.0.0.0/8", "10.0.0.1", null)) {
            AclBindingFilter filter = new AclBindingFilter(
                new ResourcePatternFilter(ResourceType.ANY, OWN, PatternType.MATCH),
                new AccessControlEntryFilter("User:nobody", host, AclOperation.ANY, AclPermissionType.ANY));
            calls.put("describeAcls " + host, () -> shown(admin.describeAcls(filter).values().get()));
            calls.put("deleteAcls " + host, () -> shown(admin.deleteAcls(List.of(filter)).all().get()));
        }
        List<ClientQuotaEntity> entities = List.of(
            new ClientQuotaEntity(Map.of("user", "nobody")), new ClientQuotaEntity(Map.of("ip", "10.9.9.9")));
        for (Double value : Arrays.asList(1000.0, null)) {
            calls.put("alterClientQuotas " + value, () -> admin.alterClientQuotas(entities.stream().map(
                each -> new ClientQuotaAlteration(each, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", value))))
                .toList()).values());
            calls.put("describeClientQuotas " + value, () -> admin.describeClientQuotas(ClientQuotaFilter.contains(
                List.of(ClientQuotaFilterComponent.ofEntity("user", "nobody")))).entities());
        }
        List<String> users = List.of("nobody", "alice");
        calls.put("alterUserScramCredentials", () -> admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion("nobody", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"),
            new UserScramCredentialDeletion("u-none", ScramMechanism.SCRAM_SHA_512))).values());
        calls.put("alterUserScramCredentials again", () -> admin.alterUserScramCredentials(List.of(
            new UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_256))).values());
        calls.put("describeUserScramCredentials", () -> {
            DescribeUserScramCredentialsResult found = admin.describeUserScramCredentials(users);
            return each(users, found::description);
        });
        byte[][] hmac = {"none".getBytes()};
        calls.put("createDelegationToken", () -> {
            hmac[0] = admin.createDelegationToken().delegationToken().get().hmac();
            return "made";
        });
        calls.put("createDelegationToken for another", () -> admin.createDelegationToken(
            new CreateDelegationTokenOptions().owner(new org.apache.kafka.common.security.auth.KafkaPrincipal("User", "carol")))
            .delegationToken().thenApply(token -> token.tokenInfo().ownerAsString()));
        calls.put("renewDelegationToken", () -> {
            // A controller knows the token a moment after it has made it.
            for (int tries = 0; tries < 30 && told(() -> renewed(hmac[0])).contains("NotFound"); tries++) {
                Thread.sleep(100);
            }
            return renewed(hmac[0]);
        });
        calls.put("expireDelegationToken", () -> admin.expireDelegationToken(hmac[0],
            new ExpireDelegationTokenOptions().expiryTimePeriodMs(-1)).expiryTimestamp().thenApply(time -> time > 0));
        calls.put("describeDelegationToken", () -> admin.describeDelegationToken(
            new DescribeDelegationTokenOptions().owners(List.of())).delegationTokens().thenApply(List::size));
    }

    private boolean renewed(byte[] hmac) throws Exception {
        return admin.renewDelegationToken(hmac).expiryTimestamp().get() > 0;
    }

    private void groups() {
        Set<TopicPartition> partitions = new LinkedHashSet<>(PARTITIONS);
        Map<TopicPartition, OffsetAndMetadata> offsets = each(PARTITIONS, each -> new OffsetAndMetadata(1));
        for (String group : GROUPS) {
            calls.put("alterConsumerGroupOffsets " + group, () -> {
                AlterConsumerGroupOffsetsResult found = admin.alterConsumerGroupOffsets(group, offsets);
                return each(PARTITIONS, found::partitionResult);
            });
            calls.put("alterStreamsGroupOffsets " + group, () -> {
                AlterStreamsGroupOffsetsResult found = admin.alterStreamsGroupOffsets(group, offsets);
                return each(PARTITIONS, found::partitionResult);
            });
            calls.put("alterShareGroupOffsets " + group, () -> {
                AlterShareGroupOffsetsResult found = admin.alterShareGroupOffsets(group, each(PARTITIONS, each -> 0L));
                return each(PARTITIONS, found::partitionResult);
            });
            calls.put("removeMembersFromConsumerGroup " + group, () -> admin.removeMembersFromConsumerGroup(
                group, new RemoveMembersFromConsumerGroupOptions()).all());
        }
        calls.put("listGroups", () -> told(() -> mine(admin.listGroups().all().get(), GroupListing::groupId)));
        calls.put("listConsumerGroups", () -> told(
            () -> mine(admin.listConsumerGroups().all().get(), ConsumerGroupListing::groupId)));
        calls.put("listConsumerGroupOffsets", () -> each(GROUPS,
            group -> told(() -> new TreeMap<>(each(PARTITIONS, p -> p).entrySet().stream().collect(
                Collectors.toMap(e -> e.getKey().toString(), e -> String.valueOf(offset(group, e.getKey()))))))));
        calls.put("listStreamsGroupOffsets", () -> each(GROUPS, group -> told(() -> admin.listStreamsGroupOffsets(
            Map.of(group, new ListStreamsGroupOffsetsSpec())).partitionsToOffsetAndMetadata(group).get())));
        calls.put("listShareGroupOffsets", () -> each(GROUPS, group -> told(() -> admin.listShareGroupOffsets(
            Map.of(group, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(group).get().keySet())));
        calls.put("describeConsumerGroups", () -> admin.describeConsumerGroups(
            GROUPS, new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).describedGroups());
        calls.put("describeClassicGroups", () -> admin.describeClassicGroups(
            GROUPS, new DescribeClassicGroupsOptions().includeAuthorizedOperations(true)).describedGroups());
        calls.put("describeShareGroups", () -> admin.describeShareGroups(GROUPS).describedGroups());
        calls.put("describeStreamsGroups", () -> admin.describeStreamsGroups(GROUPS).describedGroups());
        for (String group : GROUPS) {
            calls.put("deleteConsumerGroupOffsets " + group, () -> {
                DeleteConsumerGroupOffsetsResult found = admin.deleteConsumerGroupOffsets(group, partitions);
                return each(PARTITIONS, found::partitionResult);
            });
            calls.put("deleteStreamsGroupOffsets " + group, () -> {
                DeleteStreamsGroupOffsetsResult found = admin.deleteStreamsGroupOffsets(group, partitions);
                return each(PARTITIONS, found::partitionResult);
            });
            calls.put("deleteShareGroupOffsets " + group, () -> {
                DeleteShareGroupOffsetsResult found = admin.deleteShareGroupOffsets(group, new LinkedHashSet<>(TOPICS));
                return each(TOPICS, found::topicResult);
            });
        }
        calls.put("deleteShareGroups", () -> admin.deleteShareGroups(List.of("adm-none", OTHER)).deletedGroups());
        calls.put("deleteStreamsGroups", () -> admin.deleteStreamsGroups(List.of("adm-none", OTHER)).deletedGroups());
        calls.put("deleteConsumerGroups", () -> admin.deleteConsumerGroups(GROUPS).deletedGroups());
    }

    private static <T> List<String> mine(Collection<T> groups, Function<T, String> name) {
        return groups.stream().filter(each -> GROUPS.contains(name.apply(each))).map(String::valueOf).toList();
    }

    private String offset(String group, TopicPartition partition) {
        return told(() -> {
            OffsetAndMetadata found = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(partition);
            return found == null ? "none" : found.offset();
        });
    }

    private void transactions() {
        List<String> ids = List.of("adm-tx", "q-none");
        calls.put("fenceProducers", () -> admin.fenceProducers(ids).fencedProducers());
        calls.put("describeTransactions", () -> {
            DescribeTransactionsResult found = admin.describeTransactions(ids);
            return each(ids, id -> told(() -> found.description(id).get().state()));
        });
        calls.put("listTransactions", () -> told(() -> admin.listTransactions().all().get().stream().map(
            TransactionListing::transactionalId).filter(ids::contains).toList()));
        calls.put("abortTransaction", () -> admin.abortTransaction(
            new AbortTransactionSpec(new TopicPartition("t-sink", 0), 987_654L, (short) 3, 0)).all());
        calls.put("forceTerminateTransaction", () -> admin.forceTerminateTransaction(
            "adm-tx", new TerminateTransactionOptions()).result());
    }

    private void own() {
        calls.put("deleteTopics", () -> admin.deleteTopics(List.of(OWN, MISSING)).topicNameValues());
    }
}
