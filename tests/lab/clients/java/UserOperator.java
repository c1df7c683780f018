import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialAlteration;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * What Strimzi's user operator does with Admin: it reads all ACLs, quotas and SCRAM users, and sends what differs from
 * the KafkaUsers in batches, one request for the changes of many users. Each user has two names: with and without CN=.
 */
final class UserOperator {
    static final Map<String, Driver.Play> PLAYS = Map.of("user-operator", UserOperator::reconcile);

    private final Admin admin;
    private final Driver.Work work;

    private UserOperator(Admin admin, Driver.Work work) {
        this.admin = admin;
        this.work = work;
    }

    private static void reconcile(Driver.Work work) throws Exception {
        try (Admin admin = Admin.create(work.settings())) {
            new UserOperator(admin, work).run();
        }
    }

    private void run() throws Exception {
        String scram = work.name(), tls = "CN=" + work.name();
        AclBinding reads = acl(scram, ResourceType.TOPIC, scram, PatternType.LITERAL, AclOperation.READ);
        AclBinding group = acl(scram, ResourceType.GROUP, scram, PatternType.PREFIXED, AclOperation.READ);
        AclBinding writes = acl(tls, ResourceType.TOPIC, "*", PatternType.LITERAL, AclOperation.WRITE);
        AclBinding writesIds =
            acl(tls, ResourceType.TRANSACTIONAL_ID, scram, PatternType.PREFIXED, AclOperation.WRITE);
        AclBinding cluster =
            acl(tls, ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, AclOperation.DESCRIBE_CONFIGS);

        read(0);
        said("create ACLs", admin.createAcls(List.of(reads, group, writes, cluster)).values());
        said("alter SCRAM", admin.alterUserScramCredentials(List.of(upsertion(scram, "first"))).values());
        said("alter quotas", admin.alterClientQuotas(List.of(
            quotas(tls, 1000.0, 2000.0, 55.0, 1.5), quotas(scram, 3000.0, null, null, null))).values());
        read(10);

        // The KafkaUsers have changed. Creation and deletion are batches of their own.
        said("create ACLs", admin.createAcls(List.of(writesIds, reads)).values());
        delete(group, writes);
        said("alter quotas", admin.alterClientQuotas(List.of(
            quotas(tls, 1000.0, null, null, null), quotas(scram, 0.5, 3000.0, null, null))).values());
        said("alter SCRAM", admin.alterUserScramCredentials(List.of(upsertion(scram, "second"))).values());
        read(6);

        // The KafkaUsers are gone.
        delete(reads, writesIds, cluster);
        said("alter SCRAM", admin.alterUserScramCredentials(List.of(
            new UserScramCredentialDeletion(scram, ScramMechanism.SCRAM_SHA_512),
            new UserScramCredentialDeletion(tls, ScramMechanism.SCRAM_SHA_512))).values());
        said("alter quotas", admin.alterClientQuotas(List.of(
            quotas(tls, null, null, null, null), quotas(scram, null, null, null, null))).values());
        read(0);
        delete(reads);
        said("alter quotas", admin.alterClientQuotas(List.of(quotas(scram, null, null, null, null))).values());
    }

    private static AclBinding acl(
        String user, ResourceType type, String name, PatternType pattern, AclOperation operation) {
        return new AclBinding(new ResourcePattern(type, name, pattern),
            new AccessControlEntry("User:" + user, "*", operation, AclPermissionType.ALLOW));
    }

    private static UserScramCredentialAlteration upsertion(String user, String password) {
        return new UserScramCredentialUpsertion(
            user, new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password);
    }

    /** All four, always: null removes one. */
    private static ClientQuotaAlteration quotas(
        String user, Double producer, Double consumer, Double percentage, Double mutations) {
        return new ClientQuotaAlteration(new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, user)), new HashSet<>(List.of(
            new ClientQuotaAlteration.Op("producer_byte_rate", producer),
            new ClientQuotaAlteration.Op("consumer_byte_rate", consumer),
            new ClientQuotaAlteration.Op("request_percentage", percentage),
            new ClientQuotaAlteration.Op("controller_mutation_rate", mutations))));
    }

    /**
     * Waits until there are so many ACLs, limits and SCRAM users: a broker sees a change a little later than the
     * controller that responded to it. No state between two reads has as many as the later one.
     */
    private void read(int count) throws Exception {
        Driver.until(() -> state().size() == count);
        work.saw("read " + state());
    }

    private Set<String> state() throws Exception {
        Set<String> mine = new TreeSet<>();
        for (AclBinding each : admin.describeAcls(AclBindingFilter.ANY).values().get()) {
            if (each.entry().principal().endsWith(work.name())) {
                mine.add(each.toString());
            }
        }
        admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().forEach((entity, limits) -> {
            String user = entity.entries().get(ClientQuotaEntity.USER);
            if (user != null && user.endsWith(work.name())) {
                limits.forEach((key, value) -> mine.add(entity + " " + key + "=" + value));
            }
        });
        for (String user : admin.describeUserScramCredentials().users().get()) {
            if (user.endsWith(work.name())) {
                mine.add("SCRAM " + user);
            }
        }
        return mine;
    }

    private void delete(AclBinding... bindings) {
        Map<AclBindingFilter, KafkaFuture<Set<String>>> deleted = new HashMap<>();
        admin.deleteAcls(Arrays.stream(bindings).map(AclBinding::toFilter).toList()).values().forEach(
            (filter, results) -> deleted.put(filter, results.thenApply(found -> {
                Set<String> bindingsFound = new TreeSet<>();
                found.values().forEach(each -> bindingsFound.add(each.binding() + " " + each.exception()));
                return bindingsFound;
            })));
        said("delete ACLs", deleted);
    }

    private void said(String what, Map<?, ? extends KafkaFuture<?>> results) {
        Collection<String> lines = new TreeSet<>();
        results.forEach((key, future) -> {
            try {
                lines.add(key + " " + future.get());
            } catch (Exception error) {
                lines.add(key + " " + error.getCause());
            }
        });
        work.saw(what + " " + new ArrayList<>(lines));
    }
}
