#!/usr/bin/env bash
# Creates the directory secrets/ of the examples: a CA, certificates for the proxy and the controller, and
# random passwords. Use it for tests only; in production use your own certificate authority and vault.
#
#   deploy/secrets.sh [DIRECTORY] [NAME...]   defaults: deploy/config/secrets localhost proxy
#
# NAME: host names and IP addresses for the proxy's certificate. CONTROLLER_NAME: a further one for the controller's. Existing files are not replaced.
set -euo pipefail

directory=${1:-"$(dirname "${BASH_SOURCE[0]}")/config/secrets"}
names=("${@:2}")
((${#names[@]})) || names=(localhost proxy)
# Only the owner can read keys and passwords, except those for compose.yaml: a container mounts them one by one
# and reads them as another user. The directory itself is closed.
mode=600
(($#)) || mode=644
mkdir -p "$directory"
chmod 700 "$directory"
cd "$directory"

password() { # FILE
  [[ -s $1 ]] || openssl rand -hex 24 >"$1"
  chmod "$mode" "$1"
}

key() { # STEM
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"
  chmod "$mode" "$1.key"
}

certificate() { # STEM NAME...
  local stem=$1 name names=
  shift
  [[ -s $stem.crt ]] && return
  for name in "$@"; do
    [[ $name =~ ^[0-9.]+$|: ]] && names+="IP:$name," || names+="DNS:$name,"
  done
  key "$stem"
  openssl req -new -key "$stem.key" -out "$stem.csr" -subj "/CN=$1"
  openssl x509 -req -in "$stem.csr" -CA ca.crt -CAkey ca.key -days 365 -out "$stem.crt" \
    -extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "${names%,}") 2>/dev/null
  rm "$stem.csr"
}

[[ -s ca.crt ]] || {
  key ca
  chmod 600 ca.key
  openssl req -x509 -new -key ca.key -days 3650 -out ca.crt -subj "/CN=Penstock example CA"
}
certificate proxy "${names[@]}"
certificate controller controller '*.penstock-controller.kafka.svc' localhost ${CONTROLLER_NAME:+"$CONTROLLER_NAME"}

# The key that signs the metadata log, in a directory of its own: only controllers get it. All get the public keys.
mkdir -p signing
chmod 700 signing
[[ -s signing/signing.key ]] || {
  openssl genpkey -algorithm ed25519 -out signing/signing.key
  openssl pkey -in signing/signing.key -pubout >>controllers.pub
}
chmod "$mode" signing/signing.key
chmod 644 controllers.pub

password admin.password
password auditor.password
password broker.password
password controller.password
password grafana.password
password http.token

# The id of the chart's own brokers' cluster: as `kafka-storage.sh random-uuid`, which begins with no hyphen either.
[[ -s cluster.id ]] || openssl rand -base64 16 | tr '+/' '-_' | tr -d '=\n' | sed 's/^-/A/' >cluster.id

# The users of the example broker. No other user can log in to it.
[[ -s broker.jaas ]] || cat >broker.jaas <<END
KafkaServer {
  org.apache.kafka.common.security.plain.PlainLoginModule required
  username="penstock-broker" password="$(<broker.password)"
  user_penstock-broker="$(<broker.password)"
  user_penstock-proxy="$(<broker.password)"
  user_penstock-controller="$(<broker.password)"
  user_penstock-auditor="$(<auditor.password)";
};
END

chmod "$mode" broker.jaas

# For the audit service. On a broker with an authorizer it needs READ of two topics only: see deploy/spark/README.md.
cat >auditor.properties <<END
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
username="penstock-auditor" password="$(<auditor.password)";
END
chmod "$mode" auditor.properties

# For Kafka's own tools: --command-config admin.properties --bootstrap-server localhost:9093
cat >admin.properties <<END
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
username="admin" password="$(<admin.password)";
ssl.truststore.type=PEM
ssl.truststore.location=$PWD/ca.crt
END
chmod 600 admin.properties
echo "secrets are in $PWD"
