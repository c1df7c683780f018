import java.io.FileInputStream;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialAlteration;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * The requests of Strimzi's User Operator for a KafkaUser: all ACLs, quotas and SCRAM users are described, and
 * what differs is created, altered and deleted. Arguments: bootstrap, .properties, user, topic. A user with a
 * topic is reconciled twice, then deleted; each line of output is what one reconciliation has changed.
 */
public class UserOperator {
    private static final int ITERATIONS = 4096;

    private final Admin admin;
    private final String user;

    UserOperator(Admin admin, String user) {
        this.admin = admin;
        this.user = user;
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.load(new FileInputStream(arguments[1]));
        settings.put("bootstrap.servers", arguments[0]);
        try (Admin admin = Admin.create(settings)) {
            UserOperator operator = new UserOperator(admin, arguments[2]);
            Set<AclBinding> wanted = new HashSet<>();
            for (AclOperation operation : List.of(AclOperation.READ, AclOperation.DESCRIBE)) {
                wanted.add(new AclBinding(
                    new ResourcePattern(ResourceType.TOPIC, arguments[3], PatternType.LITERAL),
                    new AccessControlEntry("User:" + arguments[2], "*", operation, AclPermissionType.ALLOW)));
            }
            Map<String, Double> limits = Map.of("producer_byte_rate", 1024.0, "request_percentage", 55.0);
            operator.reconcile(wanted, limits, true);
            operator.reconcile(wanted, limits, false);
            operator.reconcile(Set.of(), Map.of(), false);
            operator.reconcile(Set.of(), Map.of(), false);
        }
    }

    private void reconcile(Set<AclBinding> wanted, Map<String, Double> limits, boolean isNew) throws Exception {
        int acls = acls(wanted);
        int quotas = quotas(limits);
        System.out.println("acls " + acls + ", quotas " + quotas + ", users " + users(!limits.isEmpty(), isNew));
    }

    private int acls(Set<AclBinding> wanted) throws Exception {
        Collection<AclBinding> all = admin.describeAcls(AclBindingFilter.ANY).values().get();
        Set<AclBinding> mine = all.stream()
            .filter(each -> each.entry().principal().equals("User:" + user)).collect(Collectors.toSet());
        Set<AclBinding> added = new HashSet<>(wanted);
        added.removeAll(mine);
        mine.removeAll(wanted);
        if (!added.isEmpty()) {
            admin.createAcls(added).all().get();
        }
        if (!mine.isEmpty()) {
            admin.deleteAcls(mine.stream().map(AclBinding::toFilter).toList()).all().get();
        }
        return added.size() + mine.size();
    }

    private int quotas(Map<String, Double> limits) throws Exception {
        ClientQuotaFilter every = ClientQuotaFilter.contains(
            List.of(ClientQuotaFilterComponent.ofEntityType(ClientQuotaEntity.USER)));
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, user));
        Map<String, Double> now = admin.describeClientQuotas(every).entities().get().getOrDefault(entity, Map.of());
        List<ClientQuotaAlteration.Op> ops = new ArrayList<>();
        limits.forEach((key, limit) -> {
            if (!limit.equals(now.get(key))) {
                ops.add(new ClientQuotaAlteration.Op(key, limit));
            }
        });
        now.keySet().stream().filter(key -> !limits.containsKey(key))
            .forEach(key -> ops.add(new ClientQuotaAlteration.Op(key, null)));
        if (!ops.isEmpty()) {
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, ops))).all().get();
        }
        return ops.size();
    }

    private int users(boolean isWanted, boolean isNew) throws Exception {
        boolean isThere = admin.describeUserScramCredentials().all().get().containsKey(user);
        UserScramCredentialAlteration change;
        if (isWanted && (isNew || !isThere)) {
            change = new UserScramCredentialUpsertion(
                user, new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS), "secret");
        } else if (!isWanted && isThere) {
            change = new UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512);
        } else {
            return 0;
        }
        admin.alterUserScramCredentials(List.of(change)).all().get();
        return 1;
    }
}
