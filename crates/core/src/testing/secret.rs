//! Secrets to be planted in tests, each with a value that stands nowhere else, and texts that only look as if they held one.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const LOWER: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const HEX: &[u8] = b"0123456789abcdef";
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
const CAPITALS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Also so much of a secret must not be seen again.
const PIECE: usize = 12;

/// A text with secrets, and what of it must not be seen again.
#[derive(Debug)]
pub struct Plant {
    pub text: String,
    pub secrets: Vec<String>,
}

/// Makes secrets that look like chance and are the same in every run, and keeps them.
pub struct Sower {
    state: u64,
    secrets: Vec<String>,
}

impl Sower {
    fn new(place: &str) -> Self {
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Sower { state: place.bytes().fold(0xcbf2_9ce4_8422_2325, hash), secrets: Vec::new() }
    }

    fn chance(&mut self, letters: &[u8], length: usize) -> String {
        let mut next = || {
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let place = usize::try_from(self.state >> 33).unwrap_or_default() % letters.len();
            letters.get(place).copied().unwrap_or_default() as char
        };
        (0..length).map(|_| next()).collect()
    }

    fn kept(&mut self, secret: String) -> String {
        self.secrets.push(secret.clone());
        secret
    }

    fn letters(&mut self, letters: &[u8], length: usize) -> String {
        let secret = self.chance(letters, length);
        self.kept(secret)
    }

    /// A word as a password or token is one: it begins with a letter and has a digit in it.
    fn word(&mut self, length: usize) -> String {
        let rest = self.chance(LETTERS, length.saturating_sub(2));
        self.kept(format!("q7{rest}"))
    }

    fn token(&mut self) -> String {
        let token = format!("{}.{}", self.chance(LOWER, 6), self.chance(LOWER, 16));
        self.kept(token)
    }

    /// In base64. A long one is a document, which begins like others that are no secret.
    fn encoded(&mut self, text: &str) -> String {
        let encoded = STANDARD.encode(text);
        // The end of a kubeconfig is its key.
        let from = match encoded.len() {
            ..64 => 0,
            64..200 => 24,
            long => long - 60,
        };
        let secret = encoded.get(from..).unwrap_or_default();
        self.secrets.push(secret.to_owned());
        encoded
    }

    /// Lines of a private key, without the first and the last.
    fn body(&mut self) -> [String; 3] {
        [64, 64, 28].map(|length| self.letters(LETTERS, length))
    }

    /// A private key, its lines put together by these.
    fn pem(&mut self, kind: &str, between: &str) -> String {
        let lines = self.body().join(between);
        format!("-----BEGIN {kind}PRIVATE KEY-----{between}{lines}{between}-----END {kind}PRIVATE KEY-----")
    }

    /// A kubeconfig; its credentials are not kept, as what is planted is another form of it.
    fn kubeconfig(&mut self) -> String {
        let key = STANDARD.encode(format!("-----BEGIN RSA PRIVATE KEY-----\n{}\n", self.chance(LETTERS, 64)));
        format!(
            "apiVersion: v1\nclusters:\n- cluster:\n    server: https://10.0.0.11:6443\n  name: kubernetes\nkind: Config\n\
             users:\n- name: admin\n  user:\n    client-key-data: {key}\n"
        )
    }

    /// A kubeconfig in lines of base64, put together by these; the last whole line is of its key.
    fn wrapped(&mut self, between: &str) -> String {
        let encoded = STANDARD.encode(self.kubeconfig());
        let lines: Vec<&str> = encoded.as_bytes().chunks(76).filter_map(|line| str::from_utf8(line).ok()).collect();
        self.secrets.extend(lines.iter().rev().nth(1).map(|line| (*line).to_owned()));
        lines.join(between)
    }

    fn docker(&mut self) -> String {
        let auth = STANDARD.encode(format!("operator:{}", self.chance(LETTERS, 24)));
        format!(r#"{{"auths":{{"registry.local:5000":{{"auth":"{auth}"}}}}}}"#)
    }

    fn bytes(&mut self, text: &str, between: &str) -> String {
        self.kept(numbers(text, between))
    }
}

fn numbers(text: &str, between: &str) -> String {
    text.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(between)
}

/// A kind of secret, and a text that holds one.
pub type SecretKind = (&'static str, fn(&mut Sower) -> String);

/// What people really have. Each text is whole lines, without the last line's end.
pub const KINDS: &[SecretKind] = &[
    ("bootstrap token", |it| {
        format!("kubeadm join 10.0.0.11:6443 --token {} --discovery-token-ca-cert-hash sha256:0", it.token())
    }),
    ("bootstrap token in YAML", |it| format!("    token: {}", it.token())),
    ("bootstrap token in JSON", |it| format!(r#"{{"stdout": "run:\n{}\nnow"}}"#, it.token())),
    ("certificate key", |it| format!("kubeadm join --certificate-key {}", it.letters(HEX, 64))),
    ("certificate key in YAML", |it| format!("certificateKey: {}", it.letters(HEX, 64))),
    ("certificate key in JSON", |it| format!(r#"\"certificateKey\": \"{}\""#, it.letters(HEX, 64))),
    ("certificate key in a list", |it| {
        format!(r#"["kubeadm", "join", "--certificate-key", "{}"]"#, it.letters(HEX, 64))
    }),
    ("certificate key in a list of YAML", |it| format!("  - --certificate-key\n  - {}", it.letters(HEX, 64))),
    ("certificate key below its name", |it| format!("[upload-certs] Using certificate key:\n{}", it.letters(HEX, 64))),
    ("environment file", |it| format!("DB_PASSWORD={}", it.word(20))),
    ("environment file, words", |it| format!("SMTP_PASSWORD={} {}", it.word(14), it.word(14))),
    ("environment file, quoted", |it| format!("export REGISTRY_TOKEN=\"{} {}\"", it.word(14), it.word(14))),
    ("environment file, secret", |it| format!("OIDC_CLIENT_SECRET_VALUE={}", it.word(20))),
    ("environment file, key", |it| format!("BACKUP_ENCRYPTION_KEY={}", it.word(20))),
    ("unit", |it| format!("Environment=\"API_TOKEN={}\" \"APP_SECRET={}\"", it.word(20), it.word(20))),
    ("unit, words", |it| format!("Environment=\"MAIL_PASSWORD={} {}\"", it.word(14), it.word(14))),
    ("YAML, any length", |it| format!("    password: {}", it.word(8))),
    ("YAML, a quote in quotes", |it| format!("    password: '{}''{}'", it.word(13), it.word(13))),
    ("YAML, a block", |it| format!("  password: |\n    {}\n    {}\n  next: 1", it.word(20), it.word(20))),
    ("JSON", |it| format!(r#"{{"password": "{} \" {}", "user": "x"}}"#, it.word(14), it.word(14))),
    ("JSON in JSON", |it| format!(r#"{{"MESSAGE": "{{\"password\": \"{}\"}}"}}"#, it.word(20))),
    ("camel case", |it| format!("adminPassword: {}", it.word(16))),
    ("cifs", |it| format!("//nas/share /mnt cifs username=x,password={},vers=3.0 0 0", it.word(20))),
    ("cifs, short", |it| format!("mount -t cifs -o user=x,pass={} //nas/share /mnt", it.word(16))),
    ("cifs, credentials", |it| format!("mount -o credentials=x%{} //nas/share /mnt", it.word(16))),
    ("cifs, with the user", |it| format!("//nas/share /mnt cifs username=x%{},vers=3.0 0 0", it.word(16))),
    ("flag", |it| format!("tool --password {} --verbose", it.word(16))),
    ("flag, equals", |it| format!("tool --registry-password={} --verbose", it.word(16))),
    ("flag, quoted", |it| format!("tool --password '{} {}' x", it.word(13), it.word(13))),
    ("flag in a list", |it| format!(r#"args: ["--password", "{}"]"#, it.word(16))),
    ("flag in a list of YAML", |it| format!("    - --password\n    - \"{}\"", it.word(16))),
    ("flag before the line's end", |it| format!("tool --token \\\n  {} \\\n  --x", it.word(24))),
    ("docker login", |it| format!("docker login -u operator -p {} registry.local", it.word(16))),
    ("sshpass", |it| format!("sshpass -p {} ssh root@w1", it.word(16))),
    ("mysql", |it| format!("mysql -uroot -p{} -h db", it.word(16))),
    ("curl", |it| format!("curl -sS -u operator:{} https://registry.local/v2/", it.word(16))),
    ("ctr", |it| format!("ctr -n k8s.io images pull --user operator:{} registry.local/x:1", it.word(16))),
    ("crictl", |it| format!("crictl pull --creds operator:{} registry.local/x:1", it.word(16))),
    ("client secret", |it| format!("client_secret={}&grant_type=x", it.word(24))),
    ("client secret in YAML", |it| format!("  clientSecret: \"{}\"", it.word(24))),
    ("client secret in azure.json", |it| format!(r#""aadClientSecret": "{}","#, it.word(24))),
    ("encryption at rest", |it| {
        let key = it.chance(LETTERS, 32);
        format!("        - name: key1\n          secret: {}", it.encoded(&key))
    }),
    ("Authorization", |it| format!("Authorization: Bearer {}", it.word(20))),
    ("Authorization, upper case", |it| format!("AUTHORIZATION: BEARER {}", it.word(20))),
    ("Authorization, short Basic", |it| {
        let password = it.chance(LETTERS, 4);
        format!("authorization: Basic {}", it.encoded(&format!("u:{password}")))
    }),
    ("Authorization, a dump", |it| format!("map[Accept:[*/*] Authorization:[Basic {}] User-Agent:[x]]", it.word(16))),
    ("Authorization, JSON", |it| format!(r#"{{"headers": {{"Authorization": ["Bearer {}"]}}}}"#, it.word(20))),
    ("Authorization, escaped JSON", |it| format!(r#"{{\"authorization\": \"Basic {}\"}}"#, it.word(20))),
    ("Authorization, no scheme", |it| format!("-H 'Authorization: {}'", it.word(32))),
    ("Authorization of a proxy", |it| format!("Proxy-Authorization: basic {}", it.word(20))),
    ("Authorization, digest", |it| {
        format!("Authorization: Digest username=\"x\", response=\"{}\", qop=auth", it.letters(HEX, 32))
    }),
    ("X-Auth-Token", |it| format!("> X-Auth-Token: {}", it.word(32))),
    ("Cookie", |it| format!("Cookie: session={}", it.word(32))),
    ("Bearer", |it| format!("sent with bearer {} to the webhook", it.word(20))),
    ("docker's auths", |it| {
        let password = it.chance(LETTERS, 20);
        format!(r#"{{"auths": {{"registry.local": {{"auth": "{}"}}}}}}"#, it.encoded(&format!("operator:{password}")))
    }),
    ("docker's auths, short", |it| {
        let password = it.chance(LETTERS, 6);
        format!(r#"{{"auths": {{"registry.local": {{"auth": "{}"}}}}}}"#, it.encoded(&format!("u:{password}")))
    }),
    ("containerd's auth", |it| format!("      auth = \"{}\"", it.word(24))),
    ("identity token", |it| format!(r#"\"identitytoken\": \"{}\""#, it.word(24))),
    ("docker's config in base64", |it| {
        let document = it.docker();
        format!("  .dockerconfigjson: {}", it.encoded(&document))
    }),
    ("docker's config in base64, no name", |it| {
        let document = it.docker();
        format!("value {} of a volume", it.encoded(&document))
    }),
    ("kubeconfig in base64", |it| {
        let document = it.kubeconfig();
        format!("  value: {}", it.encoded(&document))
    }),
    ("kubeconfig in base64, wrapped", |it| format!("  config: |\n    {}\n  next: 1", it.wrapped("\n    "))),
    ("kubeconfig in base64, escaped line ends", |it| format!(r#"{{"config": "{}\n", "next": 1}}"#, it.wrapped("\\n"))),
    ("kubeconfig's key", |it| {
        let key = it.chance(LETTERS, 64);
        format!("    client-key-data: {}", it.encoded(&format!("-----BEGIN RSA PRIVATE KEY-----\n{key}")))
    }),
    ("Secret's key", |it| {
        let key = it.chance(LETTERS, 64);
        format!("  tls.key: {}", it.encoded(&format!("-----BEGIN PRIVATE KEY-----\n{key}")))
    }),
    ("Secret's key, anywhere in it", |it| {
        let key = it.chance(LETTERS, 64);
        format!("  x: {}", it.encoded(&format!("# of w1\n-----BEGIN EC PRIVATE KEY-----\n{key}")))
    }),
    ("private key", |it| it.pem("RSA ", "\n")),
    ("private key, CRLF", |it| it.pem("", "\r\n")),
    ("private key, indented", |it| format!("    {}", it.pem("EC ", "\n    "))),
    ("private key, quoted", |it| format!("> {}", it.pem("OPENSSH ", "\n> "))),
    ("private key, escaped", |it| format!(r#""key": "{}\n","#, it.pem("", "\\n"))),
    ("private key, escaped twice", |it| format!(r#"{{\"key\": \"{}\\n\"}}"#, it.pem("RSA ", "\\\\n"))),
    ("private key, one line", |it| format!("key={} x", it.pem("RSA ", " "))),
    ("private key, one line without spaces", |it| format!("key={} x", it.pem("RSA ", ""))),
    ("private key in a journal", |it| {
        let lines = it.pem("RSA ", "\nNov 15 17:40:00 w1 app[12]: ");
        format!("Nov 15 17:40:00 w1 app[12]: {lines}")
    }),
    ("private key, encrypted", |it| {
        let [one, two, three] = it.body();
        format!(
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0\n\n{one}\n{two}\n{three}\n\
             -----END RSA PRIVATE KEY-----"
        )
    }),
    ("private key, its end cut off", |it| {
        let [one, two] = [64, 64].map(|length| it.letters(LETTERS, length));
        format!("-----BEGIN RSA PRIVATE KEY-----\n{one}\n{two}\n\n\n\n\n\n\nnext")
    }),
    ("private key, its beginning cut off", |it| {
        let key = it.chance(LETTERS, 50);
        let line = it.kept(format!("MIIEvQIBADANBg{key}"));
        let second = it.letters(LETTERS, 64);
        format!("{line}\n{second}\n-----END PRIVATE KEY-----")
    }),
    ("private key of GCP", |it| {
        let (id, key) = (it.letters(HEX, 40), it.pem("", "\\n"));
        format!(r#"{{"type": "service_account", "private_key_id": "{id}", "private_key": "{key}\n"}}"#)
    }),
    ("URL", |it| format!("HTTPS_PROXY=http://operator:{}@proxy.example.org:3128/", it.word(16))),
    ("URL, per cent", |it| {
        format!("HTTPS_PROXY=http://operator:{}%40%2f{}@proxy.example.org:3128/", it.word(13), it.word(13))
    }),
    ("URL, a slash", |it| {
        format!("https_proxy=http://operator:{}/{}@proxy.example.org:3128", it.word(13), it.word(13))
    }),
    ("URL, digits and a slash", |it| format!("http_proxy=http://operator:8080/{}@proxy.example.org:3128", it.word(13))),
    ("URL, a token", |it| format!("git clone https://{}@github.com/x/y", it.word(36))),
    ("URL, OAuth", |it| format!("https://oauth2:{}@gitlab.example.org/x/y.git", it.word(20))),
    ("URL of a database", |it| format!("postgres://app:{}@db:5432/app?sslmode=disable", it.word(16))),
    ("k3s", |it| {
        let (ca, rest) = (it.letters(HEX, 64), it.letters(HEX, 32));
        format!("K10{ca}::server:{rest}")
    }),
    ("k3s, environment", |it| format!("K3S_TOKEN={}", it.word(16))),
    ("RKE2, config.yaml", |it| format!("server: https://10.0.0.11:9345\ntoken: {}", it.word(12))),
    ("AWS", |it| {
        let (id, key) = (it.chance(CAPITALS, 16), it.word(40));
        let id = it.kept(format!("AKIA{id}"));
        format!("aws_access_key_id = {id}\naws_secret_access_key = {key}")
    }),
    ("AWS, JSON", |it| {
        let (id, key, session) = (it.chance(CAPITALS, 16), it.word(40), it.word(80));
        let id = it.kept(format!("ASIA{id}"));
        format!(r#"{{"AccessKeyId": "{id}", "SecretAccessKey": "{key}", "SessionToken": "{session}"}}"#)
    }),
    ("GCP", |it| {
        let key = it.chance(LETTERS, 35);
        format!("https://maps.example.org/?x={}&y=1", it.kept(format!("AIza{key}")))
    }),
    ("Azure", |it| {
        format!("DefaultEndpointsProtocol=https;AccountName=x;AccountKey={}==;EndpointSuffix=y", it.word(86))
    }),
    ("Azure, signature", |it| format!("https://x.blob.example.org/c?sv=2024&se=2026&sig={}%3D", it.word(43))),
    ("Azure, client secret", |it| {
        let (before, after) = (it.chance(LETTERS, 3), it.chance(LETTERS, 34));
        format!("az login --service-principal -u x -p {}", it.kept(format!("{before}8Q~{after}")))
    }),
    ("GitHub", |it| {
        let token = it.chance(LETTERS, 36);
        format!("remote: {} is not valid", it.kept(format!("ghp_{token}")))
    }),
    ("GitHub, fine-grained", |it| {
        let token = it.chance(LETTERS, 60);
        format!("remote: {} is not valid", it.kept(format!("github_pat_{token}")))
    }),
    ("GitLab", |it| {
        let token = it.chance(LETTERS, 20);
        format!("remote: {} is not valid", it.kept(format!("glpat-{token}")))
    }),
    ("JWT", |it| {
        let [head, body, signature] = [24, 40, 43].map(|length| it.chance(LETTERS, length));
        format!("mounted {} here", it.kept(format!("eyJ{head}.eyJ{body}.{signature}")))
    }),
    ("JWT, cut off", |it| {
        let rest = it.chance(LETTERS, 40);
        format!("mounted {}… here", it.kept(format!("eyJhbGciOi{rest}")))
    }),
    ("service account's token", |it| format!("  \"token\": \"{}\"", it.word(24))),
    ("token by its name", |it| format!("token {} was refused", it.word(24))),
    ("byte array", |it| {
        let password = it.chance(CAPITALS, 16);
        let secret = it.bytes(&password, ",");
        let (before, after) = (numbers("\u{1b}[31mtool --password=", ","), numbers(" \u{fffd} end", ","));
        format!(r#"{{"PRIORITY":"6","MESSAGE":[{before},{secret},{after}],"_PID":"1"}}"#)
    }),
    ("byte array, a number a line", |it| {
        let password = it.chance(CAPITALS, 16);
        let secret = it.bytes(&password, ",\n\t\t");
        let before = numbers("password: ", ",\n\t\t");
        format!("{{\n\t\"MESSAGE\" : [\n\t\t{before},\n\t\t{secret}\n\t],\n\t\"_PID\" : \"1\"\n}}")
    }),
    ("password's hash", |it| {
        let hash = it.letters(LETTERS, 60);
        format!("root:$6$saltsalt${hash}:20000:0:99999:7:::")
    }),
    ("PresharedKey", |it| {
        let key = it.chance(LETTERS, 32);
        format!("PresharedKey = {}", it.encoded(&key))
    }),
    ("environment file, an ampersand first", |it| format!("DB_PASSWORD=&{}", it.word(19))),
    ("environment file, a pipe first", |it| format!("REGISTRY_TOKEN=|{}", it.word(19))),
    ("environment file, an angle bracket first", |it| format!("APP_SECRET=>{}", it.word(19))),
    ("environment file, a brace first", |it| format!("BACKUP_KEY={{{}", it.word(19))),
    ("environment file, a bracket first", |it| format!("SMTP_PASSWORD=[{}", it.word(19))),
    ("YAML, an ampersand first", |it| format!("password: &{}", it.word(19))),
    ("URL, a token and no password", |it| format!("git clone https://{}:@github.com/x/y", it.word(36))),
    ("URL, a token for GitHub", |it| format!("git clone https://{}:x-oauth-basic@github.com/x/y", it.word(36))),
    ("URL, a token and a password", |it| format!("https://{}:{}@forge.example.org/x", it.word(24), it.word(16))),
    ("Authorization, a pair", |it| {
        let password = it.chance(LETTERS, 4);
        let basic = it.encoded(&format!("u:{password}"));
        format!(r#"{{"headers":[{{"name":"Authorization","value":"Basic {basic}"}}]}}"#)
    }),
    ("Authorization, a pair, no scheme", |it| format!(r#"{{"name": "Authorization", "value": "{}"}}"#, it.word(32))),
    ("Authorization, a pair on two lines", |it| {
        format!("  \"name\": \"authorization\",\n  \"value\": \"Basic {}\"", it.word(16))
    }),
    ("Authorization, raw headers", |it| format!(r#"["Host","x","Authorization","Basic {}"]"#, it.word(16))),
    ("Cookie, a pair", |it| format!(r#"{{"name":"Cookie","value":"session={}"}}"#, it.word(32))),
    ("registries.yaml", |it| {
        let password = it.chance(LETTERS, 6);
        format!("      auth: {}", it.encoded(&format!("u:{password}")))
    }),
    ("k3s, a word", |it| format!("k3s agent --server https://10.0.0.11:6443 --token {}", it.letters(ALPHABET, 14))),
    ("RKE2, a word, short", |it| format!("rke2 agent -s https://10.0.0.11:9345 -t {}", it.letters(ALPHABET, 14))),
    ("flag for a token, a word", |it| format!("agent --token={}", it.letters(ALPHABET, 14))),
    ("flag for a token, a word before a flag", |it| format!("--token {} --node-ip 10.0.0.1", it.letters(ALPHABET, 14))),
    ("flag for a token, a word in a list", |it| format!(r#"args: ["--token", "{}"]"#, it.letters(ALPHABET, 14))),
    ("k3s, its unit", |it| {
        format!("ExecStart=/usr/local/bin/k3s \\\n    agent \\\n\t'--token' \\\n\t'{}' \\\n", it.letters(ALPHABET, 14))
            + "\t'--node-ip' \\"
    }),
    ("environment of a container", |it| format!(r#"{{"name":"DB_PASSWORD","value":"{}"}}"#, it.word(16))),
    ("environment of a container, with a space", |it| {
        format!(r#"{{"name": "SMTP_TOKEN", "value": "{} {}"}}"#, it.letters(ALPHABET, 12), it.letters(ALPHABET, 12))
    }),
    ("environment of a container, crictl", |it| format!(r#"{{ "key": "API_KEY", "value": "{}" }}"#, it.word(16))),
    ("environment of a container, in a flow", |it| format!("envs: [{{key: DB_PASSWORD, value: {}}}]", it.word(16))),
    ("environment of a container, as protobuf", |it| format!("envs:{{key:\"DB_PASSWORD\" value:\"{}\"}}", it.word(16))),
    ("environment of a container, YAML, words", |it| {
        format!("    - name: DB_PASSWORD\n      value: {} {}", it.word(14), it.word(14))
    }),
    ("environment of a container, JSON on lines", |it| {
        format!("  \"key\": \"DB_PASSWORD\",\n  \"value\": \"{}\"", it.letters(ALPHABET, 14))
    }),
    ("environment of a container, Go", |it| {
        let (one, two) = (it.letters(ALPHABET, 12), it.letters(ALPHABET, 12));
        format!("[]EnvVar{{EnvVar{{Name:DB_PASSWORD,Value:{one} {two},ValueFrom:nil,}},}},Resources:x")
    }),
    ("netrc", |it| format!("machine registry.local login operator password {}", it.letters(ALPHABET, 14))),
    ("password on stdin", |it| {
        format!("echo {} | docker login -u operator --password-stdin registry.local", it.letters(ALPHABET, 14))
    }),
    ("etcdctl", |it| format!("etcdctl --user=root:{} member list", it.word(16))),
    ("ceph", |it| {
        let key = it.chance(LETTERS, 36);
        format!("\tkey = {}", it.kept(format!("AQ{key}==")))
    }),
];

/// A text with a secret of each kind in it; each place has its own.
pub fn plant(place: &str) -> Plant {
    let mut all = Plant { text: String::new(), secrets: Vec::new() };
    for kind in KINDS {
        let Plant { text, secrets } = plant_one(kind, place);
        all.text.push_str(&text);
        all.text.push('\n');
        all.secrets.extend(secrets);
    }
    let _ = writeln!(all.text, "the end of {place}");
    all
}

/// A text with a secret of one kind.
pub fn plant_one((name, text): &SecretKind, place: &str) -> Plant {
    let mut sower = Sower::new(&format!("{place} {name}"));
    let text = text(&mut sower);
    Plant { text, secrets: sower.secrets }
}

/// What of the secrets is in these bytes: also a part of one must not be.
pub fn pieces_found(bytes: &[u8], secrets: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let (long, short): (Vec<&String>, Vec<&String>) = secrets.iter().partition(|secret| secret.len() >= PIECE);
    let pieces: std::collections::HashSet<&[u8]> =
        long.iter().flat_map(|secret| secret.as_bytes().windows(PIECE)).collect();
    found.extend(bytes.windows(PIECE).filter(|window| pieces.contains(window)));
    for secret in short {
        found.extend(memchr::memmem::find(bytes, secret.as_bytes()).map(|_| secret.as_bytes()));
    }
    found.into_iter().map(|piece| String::from_utf8_lossy(piece).into_owned()).collect()
}

/// What looks as if it held a secret, and holds none: it comes out as it went in.
pub const HARMLESS: &[&str] = &[
    "--discovery-token-ca-cert-hash sha256:8c1f0e3b5a7d9c2e4f6081a3b5c7d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80",
    "registry.k8s.io/pause@sha256:8c1f0e3b5a7d9c2e4f6081a3b5c7d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80",
    "docker://registry.local:5000/pause@sha256:8c1f0e3b5a7d9c2e4f6081a3b5c7d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80",
    "image: ghcr.io/flannel-io/flannel:v0.25.6",
    "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs",
    "-----BEGIN CERTIFICATE-----\nMIIDBTCCAe2gAwIBAgIIYabcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH\nMIIEvgYJKoZIhvcNAQcCoIIErzCCBKsCAQExADALBgkqhkiG9w0BBwGgggSRMIIE\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE REQUEST-----\nMIIBDzCBtwIBADAlMSMwIQYDVQQKExpzeXN0ZW06bm9kZXM=\n-----END CERTIFICATE REQUEST-----",
    "client-certificate-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUM=",
    "certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUM=",
    "client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\nclient-key: /var/lib/kubelet/pki/kubelet-client-current.pem",
    "--token-file=/run/token",
    "--tls-private-key-file=/etc/kubernetes/pki/apiserver.key --tls-cert-file=/etc/kubernetes/pki/apiserver.crt",
    "--service-account-key-file=/etc/kubernetes/pki/sa.pub --service-account-signing-key-file=/etc/kubernetes/pki/sa.key",
    "--authentication-token-webhook-config-file=/etc/kubernetes/webhook.yaml",
    "--authorization-mode=Node,RBAC",
    "authorization:\n  mode: Webhook\n  webhook:\n    cacheAuthorizedTTL: 0s",
    r#""authorization":{"mode":"Webhook","webhook":{"cacheAuthorizedTTL":"0s"}}"#,
    r#""authentication":{"anonymous":{"enabled":false},"x509":{"clientCAFile":"/etc/kubernetes/pki/ca.crt"}}"#,
    "sudo: a password is required",
    "error: --password is required",
    "the flag --token must be set together with --discovery-file",
    "Failed password for root from 10.0.0.1 port 51234 ssh2",
    "pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=10.0.0.1",
    "PasswordAuthentication no\nPermitEmptyPasswords no\nKbdInteractiveAuthentication no",
    "passwd:         files systemd\nshadow:         files\ngroup:          files systemd",
    "password: \"\"\ntoken: null",
    "password: <your password>\npassword: ${DB_PASSWORD}\npassword: {{ vault_password }}\npassword: ********",
    "--password $DB_PASSWORD --token=${TOKEN}",
    "password requisite pam_pwquality.so retry=3",
    "bearer authentication is off; basic kubernetes-conformance passed",
    "ssh://root@w1:22/",
    "git@github.com:kubernetes/kubernetes.git",
    "git clone ssh://git@gitlab.example.org:2222/x/y.git",
    "https://example.org/contact?mail=someone@example.org",
    "https://example.org:8443/users/someone@example.org",
    "https://someone@example.org/",
    "https://10.0.0.11:6443/api/v1/nodes?fieldSelector=metadata.name%3Dw1&limit=500",
    "unix:///run/containerd/containerd.sock",
    "could not find a JWS signature in the cluster-info ConfigMap for token ID \"zzzzzz\"",
    "system:bootstrap:abcdef and the Secret bootstrap-token-abcdef",
    "net.ipv4.conf.all.forwarding = 1",
    "Description=containerd.containerruntime service",
    "KeyringMode=private\nTokenAccounting=no\nPassEnvironment=\nLoadCredential=\nSetCredential=",
    "KEY=value\nMSG_KEY_NOT_FOUND: nothing\nKEYMAP=us\nXKBMODEL=pc105",
    "topologyKey: kubernetes.io/hostname\nkey: node-role.kubernetes.io/control-plane",
    "err=\"failed to sync\" key=\"kube-system/coredns\" secret=\"default/registry\"",
    "secretName: web-tls\nimagePullSecrets:\n- name: registry-credentials",
    "secretKeyRef:\n  name: database\n  key: password\nprivateKeySecretRef:\n  name: letsencrypt",
    "automountServiceAccountToken: true\nserviceAccountToken:\n  expirationSeconds: 3607\ntokenExpirationSeconds: 3607",
    "rotateCertificates: true\nserverTLSBootstrap: false",
    "kubernetes.io/projected/3f9fd0a5-2b46-4a2b-8f0a-1c2d3e4f5a6b-kube-api-access-8zkxv",
    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod3f9fd0a52b464a2b8f0a1c2d3e4f5a6b.slice",
    "cri-containerd-8c1f0e3b5a7d9c2e4f6081a3b5c7d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80.scope",
    "Machine ID: 0123456789abcdef0123456789abcdef\nBoot ID: 3f9fd0a5-2b46-4a2b-8f0a-1c2d3e4f5a6b",
    "SSH_HOST_KEY=/etc/ssh/ssh_host_ed25519_key\nPUBLIC_KEY=AAAAC3NzaC1lZDI1NTE5AAAAIJ",
    "TOKEN_FILE=/run/token SECRET_NAME=registry AWS_SECRET_FILE=/etc/aws",
    "credentials=/etc/cifs.credentials,vers=3.0",
    "tests: pass=10 fail=0 skip=2\n--- PASS: TestJoin (0.00s)",
    "unexpected token: \"}\" at line 3\nSyntaxError: Unexpected token < in JSON at position 0",
    "invalid bearer token, token lookup failed",
    "x509: certificate signed by unknown authority (possibly because of \"crypto/rsa: verification error\")",
    "kubelet.service: Failed to set up credentials: Protocol error",
    "docker run -p 8080:80 --name web nginx; mkdir -p /etc/cni/net.d; curl -u",
    "{\"CapEff\":[0,1,2,3,4,5,6,7,8,9,10,11,12],\"ports\":[80,443],\"limits\": [ 1, 2 ]}",
    "The key is not in the keyring; keys: 3, key size 2048, public key SHA256:abcdef0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ0",
    "<redacted:bootstrap-token> password: <redacted:credential> Authorization: Bearer <redacted:authorization>",
    "volume \"kube-proxy-token-abcde\" (UniqueName: \"kubernetes.io/secret/3f9fd0a5-kube-proxy-token-abcde\")",
    "basic auth is disabled, auth = \"none\", \"auth\": \"basic\"",
    "Kubernetes v1.34.1, containerd 1.7.28, etcd 3.6.4-0, coredns v1.12.1",
    "user=root pid=12 comm=kubelet exe=/usr/bin/kubelet password-less login",
    "password=&user=bob&x=1\npassword=&amp;user=bob",
    "password: > 8 characters\npassword: >=8\nsecret={name: registry}\npassword: {}\npassword: []",
    "Password:{Name:db Key:password} Token:{} Secret:[regcred other] password={password} API_TOKEN={0}",
    "tool --password | tee x; tool --password && y; tool --password >/tmp/x; DB_PASSWORD=| y; DB_TOKEN=|| y",
    "http://operator:@proxy.example.org:3128/ https://deployer:********@forge.example.org/",
    r#"["Authorization","Content-Type"] {"name":"Authorization","value":""} {"name":"Content-Type","value":"text/html"}"#,
    "auth: true\nauth: webhook\nauth: kubernetes-dashboard-v2-proxy-12",
    "kubeadm join [api-server] --token TOKEN --discovery-token-ca-cert-hash sha256:HASH",
    "   --token value, -t value                    (cluster) Shared secret used to join a cluster [$K3S_TOKEN]",
    "k3s: the flag --token is required, rke2 agent needs --token; set one of \"--token\", \"--token-file\"",
    "k3s ctr -n k8s.io images ls; k3s kubectl exec -i -t web; rke2 server -t",
    r#"{"name":"TOKEN_FILE","value":"/run/token"},{"name":"SECRET_NAME","value":"registry-1"}"#,
    r#"{"name":"DB_PASSWORD","valueFrom":{"secretKeyRef":{"name":"db","key":"password"}}}"#,
    "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n- name: DB_TOKEN\n  value: $(OTHER)",
    r#"{"key":"node-role.kubernetes.io/secret","value":"","effect":"NoSchedule"}"#,
    r#"{"name":"routing-key","value":"kubernetes.io/hostname"},{"name":"secret","value":"default/registry"}"#,
    "EnvVar{Name:DB_PASSWORD,Value:,ValueFrom:&EnvVarSource{SecretKeyRef:x}},EnvVar{Name:MODE,Value:on,ValueFrom:nil,}",
    "VolumeMount{Name:kube-api-access-token,ReadOnly:true,MountPath:/var/run/secrets/kubernetes.io/serviceaccount}",
    "machine w1 login is closed, its password expired; echo \"$PASSWORD\" | docker login -u x --password-stdin",
    "etcdctl --user root member list\nkey = value\nkey = AQ",
];
