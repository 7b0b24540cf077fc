//! The resources that are served, and in what they differ: a row each.

/// Lists that a strategic merge patch merges by a key of their entries; an empty key merges lists of plain values.
type MergedLists = &'static [(&'static str, &'static str)];

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a column of the table below")]
pub(crate) struct Resource {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub kind: &'static str,
    pub namespaced: bool,
    /// What is written by way of `/status` alone.
    pub status: bool,
    /// Counts changes of what is neither metadata nor status.
    pub generation: bool,
    /// Of a CustomResourceDefinition: no strategic merge, and `/status` writes nothing but the status.
    pub custom: bool,
    /// An update that names no resourceVersion is taken.
    pub unconditional: bool,
    /// Field selectors beside metadata.name and metadata.namespace, and where the field is.
    pub fields: &'static [(&'static str, &'static str)],
    pub lists: MergedLists,
}

impl Resource {
    /// `v1`, `coordination.k8s.io/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// As messages name it: `nodes`, `leases.coordination.k8s.io`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `Node`, `Lease.coordination.k8s.io`.
    pub(crate) fn qualified_kind(&self) -> String {
        if self.group.is_empty() { self.kind.to_owned() } else { format!("{}.{}", self.kind, self.group) }
    }

    pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
        RESOURCES.iter().find(|it| (it.group, it.version, it.plural) == (group, version, plural))
    }

    pub(crate) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Resource> {
        RESOURCES.iter().find(|it| it.kind == kind && it.api_version() == api_version)
    }
}

/// What a row leaves out.
const PLAIN: Resource = Resource {
    group: "",
    version: "v1",
    plural: "",
    kind: "",
    namespaced: true,
    status: false,
    generation: false,
    custom: false,
    unconditional: true,
    fields: &[],
    lists: METADATA,
};

const METADATA: MergedLists = &[("metadata.finalizers", ""), ("metadata.ownerReferences", "uid")];

pub(crate) const NODES: &str = "nodes";
pub(crate) const PODS: &str = "pods";
pub(crate) const REQUESTS: &str = "certificatesigningrequests";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
/// Who asks, and what it may: questions, of which nothing is kept.
pub(crate) const SELF_REVIEWS: &str = "selfsubjectreviews";
pub(crate) const ACCESS_REVIEWS: &str = "selfsubjectaccessreviews";

pub(crate) static RESOURCES: &[Resource] = &[
    Resource { plural: "namespaces", kind: "Namespace", namespaced: false, status: true, ..PLAIN },
    Resource {
        plural: NODES,
        kind: "Node",
        namespaced: false,
        status: true,
        fields: &[("spec.unschedulable", "/spec/unschedulable")],
        lists: &[
            ("metadata.finalizers", ""),
            ("metadata.ownerReferences", "uid"),
            ("spec.podCIDRs", ""),
            ("status.conditions", "type"),
            ("status.addresses", "type"),
        ],
        ..PLAIN
    },
    Resource {
        plural: PODS,
        kind: "Pod",
        status: true,
        generation: true,
        fields: &[
            ("spec.nodeName", "/spec/nodeName"),
            ("spec.restartPolicy", "/spec/restartPolicy"),
            ("spec.schedulerName", "/spec/schedulerName"),
            ("spec.serviceAccountName", "/spec/serviceAccountName"),
            ("status.phase", "/status/phase"),
            ("status.podIP", "/status/podIP"),
            ("status.nominatedNodeName", "/status/nominatedNodeName"),
        ],
        lists: &[
            ("metadata.finalizers", ""),
            ("metadata.ownerReferences", "uid"),
            ("spec.containers", "name"),
            ("spec.containers.env", "name"),
            ("spec.containers.ports", "containerPort"),
            ("spec.containers.volumeMounts", "mountPath"),
            ("spec.initContainers", "name"),
            ("spec.volumes", "name"),
            ("status.conditions", "type"),
            ("status.podIPs", "ip"),
            ("status.hostIPs", "ip"),
        ],
        ..PLAIN
    },
    Resource { plural: "configmaps", kind: "ConfigMap", ..PLAIN },
    Resource { plural: "secrets", kind: "Secret", fields: &[("type", "/type")], ..PLAIN },
    Resource {
        plural: "events",
        kind: "Event",
        fields: &[
            ("involvedObject.kind", "/involvedObject/kind"),
            ("involvedObject.namespace", "/involvedObject/namespace"),
            ("involvedObject.name", "/involvedObject/name"),
            ("involvedObject.uid", "/involvedObject/uid"),
            ("reason", "/reason"),
            ("reportingComponent", "/reportingComponent"),
            ("source", "/source/component"),
            ("type", "/type"),
        ],
        ..PLAIN
    },
    // A store of its own; a real server shows the same events under both groups.
    Resource { group: "events.k8s.io", plural: "events", kind: "Event", ..PLAIN },
    Resource { group: "coordination.k8s.io", plural: "leases", kind: "Lease", unconditional: false, ..PLAIN },
    Resource {
        group: "certificates.k8s.io",
        plural: REQUESTS,
        kind: "CertificateSigningRequest",
        namespaced: false,
        status: true,
        fields: &[("spec.signerName", "/spec/signerName")],
        lists: &[("metadata.finalizers", ""), ("metadata.ownerReferences", "uid"), ("status.conditions", "type")],
        ..PLAIN
    },
    Resource {
        group: "apps",
        plural: "daemonsets",
        kind: "DaemonSet",
        status: true,
        generation: true,
        lists: &[
            ("metadata.finalizers", ""),
            ("metadata.ownerReferences", "uid"),
            ("spec.template.spec.containers", "name"),
            ("spec.template.spec.containers.env", "name"),
            ("spec.template.spec.containers.volumeMounts", "mountPath"),
            ("spec.template.spec.initContainers", "name"),
            ("spec.template.spec.volumes", "name"),
            ("status.conditions", "type"),
        ],
        ..PLAIN
    },
    Resource {
        group: "policy",
        plural: "poddisruptionbudgets",
        kind: "PodDisruptionBudget",
        status: true,
        generation: true,
        unconditional: false,
        lists: &[("metadata.finalizers", ""), ("metadata.ownerReferences", "uid"), ("status.conditions", "type")],
        ..PLAIN
    },
    Resource { group: AUTHENTICATION, plural: SELF_REVIEWS, kind: "SelfSubjectReview", namespaced: false, ..PLAIN },
    Resource {
        group: AUTHORIZATION,
        plural: ACCESS_REVIEWS,
        kind: "SelfSubjectAccessReview",
        namespaced: false,
        ..PLAIN
    },
    Resource {
        group: "readiness.node.x-k8s.io",
        version: "v1alpha1",
        plural: "nodereadinessrules",
        kind: "NodeReadinessRule",
        namespaced: false,
        status: true,
        generation: true,
        custom: true,
        unconditional: false,
        fields: &[
            ("spec.enforcementMode", "/spec/enforcementMode"),
            ("spec.taint.key", "/spec/taint/key"),
            ("spec.dryRun", "/spec/dryRun"),
        ],
        lists: &[],
    },
];
