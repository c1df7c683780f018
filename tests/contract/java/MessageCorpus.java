import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;
import java.util.function.Supplier;
import java.util.stream.Stream;
import java.util.zip.GZIPOutputStream;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field.TaggedFieldsSection;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.record.internal.BaseRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.internals.ImplicitLinkedHashCollection;

/**
 * Random messages as Kafka's own classes write them, for tests/contract/test_wire_corpus.py.
 *
 *     java -cp 'LIBS/*' tests/contract/java/MessageCorpus.java OUT.gz SEED PER_VERSION
 *
 * LIBS holds kafka-clients and kafka-metadata of one release. The same seed gives the same file. A line is
 *
 *     name  version  bytes in hex  other version  bytes in hex
 *
 * a message that was filled at random with what `version` can hold, as that version and as another one (or the same)
 * writes it. `-` stands for a message nobody filled, `!` for one that the other version refuses to write.
 */
public final class MessageCorpus {
    private record Kind(String name, Supplier<Message> make) { }

    private static final List<String> DATA = List.of(
        "AbortedTxn", "ConsumerProtocolAssignment", "ConsumerProtocolSubscription", "ControlRecordTypeSchema",
        "DefaultPrincipalData", "EndTxnMarker",
        "KRaftVersionRecord", "LeaderChangeMessage", "RequestHeaderData", "ResponseHeaderData",
        "SnapshotFooterRecord", "SnapshotHeaderRecord", "VotersRecord");

    private final Random random;

    private MessageCorpus(long seed) {
        this.random = new Random(seed);
    }

    public static void main(String[] arguments) throws IOException {
        MessageCorpus corpus = new MessageCorpus(Long.parseLong(arguments[1]));
        try (OutputStream file = Files.newOutputStream(Path.of(arguments[0]));
             PrintStream out = new PrintStream(new GZIPOutputStream(file), false, StandardCharsets.US_ASCII)) {
            kinds().forEach(kind -> corpus.writeKind(kind, Integer.parseInt(arguments[2]), out));
        }
    }

    private static Stream<Kind> kinds() {
        Stream<ApiMessageType> live = Stream.of(ApiMessageType.values())
            .filter(api -> api.lowestSupportedVersion() <= api.highestSupportedVersion(true));
        Stream<Kind> apis = live.flatMap(api -> Stream.of(
            new Kind(api.newRequest().getClass().getSimpleName(), api::newRequest),
            new Kind(api.newResponse().getClass().getSimpleName(), api::newResponse)));
        Stream<Kind> records = Stream.of(MetadataRecordType.values())
            .map(type -> new Kind(type.newMetadataRecord().getClass().getSimpleName(), type::newMetadataRecord));
        Stream<Kind> data = DATA.stream().map(name -> new Kind(name, () -> (Message) make(messageClass(name))));
        return Stream.of(apis, records, data).flatMap(kinds -> kinds);
    }

    private static Class<?> messageClass(String name) {
        try {
            return Class.forName("org.apache.kafka.common.message." + name);
        } catch (ClassNotFoundException missing) {
            throw new IllegalStateException(missing);
        }
    }

    private void writeKind(Kind kind, int perVersion, PrintStream out) {
        short lowest = kind.make().get().lowestSupportedVersion();
        short highest = kind.make().get().highestSupportedVersion();
        // DefaultPrincipalData is its schema's name as well as its class's.
        String name = kind.name().equals("DefaultPrincipalData") ? kind.name() : kind.name().replaceAll("Data$", "");
        for (short version = lowest; version <= highest; version++) {
            out.println(String.join(" ", name, "-", "-", Short.toString(version), hex(kind.make().get(), version)));
            for (int i = 0; i < perVersion; i++) {
                Message message = writable(kind, version);
                short other = i == 0 ? version : (short) (lowest + random.nextInt(highest - lowest + 1));
                out.println(String.join(" ", name, Short.toString(version), hex(message, version),
                    Short.toString(other), hex(reread(kind, message, version), other)));
            }
        }
    }

    private Message writable(Kind kind, short version) {
        Message message = kind.make().get();
        fill(message, version);
        // A schema calls all records nullable, also those that the class cannot write as null.
        return hex(message, version).equals("!") ? writable(kind, version) : message;
    }

    /** What another version writes must not depend on what the first one could not carry. */
    private static Message reread(Kind kind, Message message, short version) {
        ByteBuffer bytes = bytes(message, version);
        Message copy = kind.make().get();
        copy.read(new ByteBufferAccessor(bytes), version);
        return copy;
    }

    private static String hex(Message message, short version) {
        try {
            ByteBuffer bytes = bytes(message, version);
            return HexFormat.of().formatHex(bytes.array(), 0, bytes.limit());
        } catch (RuntimeException refused) {
            return "!";
        }
    }

    private static ByteBuffer bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        buffer.flip();
        return buffer;
    }

    // Filling a message by its schema of one version

    private void fill(Message message, short version) {
        fill(message, schema(message, version));
    }

    private void fill(Message message, Schema schema) {
        for (BoundField bound : schema.fields()) {
            if (bound.def instanceof TaggedFieldsSection section) {
                fillTags(message, (TaggedFields) section.type);
            } else {
                set(message, bound.def.name, bound.def.type);
            }
        }
    }

    private void fillTags(Message message, TaggedFields tags) {
        tags.fields().values().forEach(field -> {
            if (random.nextBoolean()) {
                set(message, field.name, field.type);
            }
        });
        if (random.nextInt(4) == 0) {
            TreeSet<Integer> unknown = new TreeSet<>(List.of(100 + random.nextInt(40), 10000 + random.nextInt(9)));
            unknown.forEach(tag -> message.unknownTaggedFields().add(
                new RawTaggedField(tag, randomBytes(random.nextInt(6)))));
        }
    }

    private void set(Message message, String name, org.apache.kafka.common.protocol.types.Type type) {
        Field field = fields(message.getClass()).get(plain(name));
        try {
            field.set(message, value(field, field.get(message), type));
        } catch (IllegalAccessException closed) {
            throw new IllegalStateException(closed);
        }
    }

    private Object value(Field field, Object initial, org.apache.kafka.common.protocol.types.Type type) {
        // A schema does not say that a struct may be null, but then the class leaves it null.
        boolean nullable = type.isNullable() || type instanceof Schema && initial == null;
        if (nullable && random.nextInt(4) == 0) {
            return null;
        }
        if (type.isArray()) {
            return array(field, type.arrayElementType().orElseThrow());
        }
        return type instanceof Schema schema ? struct(field.getType(), schema) : scalar(field.getType(), type);
    }

    private Object array(Field field, org.apache.kafka.common.protocol.types.Type elementType) {
        Collection<Object> elements = emptyCollection(field.getType());
        Class<?> elementClass = elementClass(field);
        boolean isLong = !(elementType instanceof Schema) && random.nextInt(40) == 0;
        int count = isLong ? 126 + random.nextInt(4) : random.nextInt(3);
        for (int i = 0; i < count; i++) {
            elements.add(elementType instanceof Schema schema
                ? struct(elementClass, schema) : scalar(elementClass, elementType));
        }
        return elements;
    }

    @SuppressWarnings("unchecked")
    private static Collection<Object> emptyCollection(Class<?> fieldClass) {
        return fieldClass == List.class ? new ArrayList<>() : (Collection<Object>) make(fieldClass);
    }

    private static Class<?> elementClass(Field field) {
        Type type = ImplicitLinkedHashCollection.class.isAssignableFrom(field.getType())
            ? field.getType().getGenericSuperclass() : field.getGenericType();
        return (Class<?>) ((ParameterizedType) type).getActualTypeArguments()[0];
    }

    private Message struct(Class<?> structClass, Schema schema) {
        Message struct = (Message) make(structClass);
        fill(struct, schema);
        return struct;
    }

    private Object scalar(Class<?> javaClass, org.apache.kafka.common.protocol.types.Type type) {
        if (javaClass == String.class) {
            return randomString();
        } else if (javaClass == byte[].class) {
            return randomBytes(random.nextInt(7));
        } else if (javaClass == ByteBuffer.class) {
            return ByteBuffer.wrap(randomBytes(random.nextInt(7)));
        } else if (BaseRecords.class.isAssignableFrom(javaClass)) {
            return MemoryRecords.readableRecords(ByteBuffer.wrap(randomBytes(random.nextInt(20))));
        } else if (javaClass == Uuid.class) {
            return new Uuid(random.nextLong(), random.nextLong());
        }
        return number(javaClass, type);
    }

    private Object number(Class<?> javaClass, org.apache.kafka.common.protocol.types.Type type) {
        long value = edgeOrRandom();
        return switch (javaClass.getSimpleName().toLowerCase(Locale.ROOT)) {
            case "boolean" -> random.nextBoolean();
            case "byte" -> (byte) value;
            case "short" -> (short) value;
            case "int", "integer" ->
                type == org.apache.kafka.common.protocol.types.Type.UINT16 ? (int) value & 0xffff : (int) value;
            case "long" -> value;
            case "double" -> random.nextGaussian() * 1e6;
            default -> throw new IllegalStateException("no values for " + javaClass);
        };
    }

    private long edgeOrRandom() {
        return switch (random.nextInt(8)) {
            case 0 -> -1;
            case 1 -> 0;
            case 2 -> Long.MAX_VALUE;
            case 3 -> Long.MIN_VALUE | Integer.MIN_VALUE | 0x8000 | 0x80;
            case 4 -> random.nextLong();
            default -> random.nextInt(1000);
        };
    }

    private String randomString() {
        // Lengths around 127 decide between one and two bytes of a varint.
        int length = random.nextInt(60) == 0 ? 125 + random.nextInt(5) : random.nextInt(6);
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < length; i++) {
            text.appendCodePoint(random.nextInt(12) == 0 ? 0x1f300 + random.nextInt(64) : 'a' + random.nextInt(26));
        }
        return text.toString();
    }

    private byte[] randomBytes(int size) {
        byte[] bytes = new byte[size];
        random.nextBytes(bytes);
        return bytes;
    }

    // Reflection

    private static Schema schema(Message message, short version) {
        try {
            return ((Schema[]) message.getClass().getField("SCHEMAS").get(null))[version];
        } catch (ReflectiveOperationException missing) {
            throw new IllegalStateException(missing);
        }
    }

    private static Map<String, Field> fields(Class<?> messageClass) {
        Map<String, Field> byName = new HashMap<>();
        for (Field field : messageClass.getDeclaredFields()) {
            field.setAccessible(true);
            byName.put(plain(field.getName()), field);
        }
        return byName;
    }

    private static String plain(String name) {
        return name.replace("_", "").toLowerCase(Locale.ROOT);
    }

    private static Object make(Class<?> anyClass) {
        try {
            return anyClass.getConstructor().newInstance();
        } catch (ReflectiveOperationException unusable) {
            throw new IllegalStateException(unusable);
        }
    }
}
