//! Nodes as a kubelet and the controllers around it leave them: the fields, and the size, of the real thing.

use serde_json::{Value, json};

/// As many nodes as asked for; the same every time.
pub fn nodes(count: u32) -> impl Iterator<Item = Value> {
    (0..count).map(node)
}

/// The n-th node of a cluster of workers, joined and Ready.
pub fn node(n: u32) -> Value {
    let name = format!("worker-{n:05}");
    let address = format!("10.{}.{}.{}", 64 + (n >> 16), (n >> 8) & 255, n & 255);
    let pods = format!("172.{}.{}.0/24", 16 + ((n >> 8) & 15), n & 255);
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": uuid(n, 1),
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/region": "eu-1",
                "topology.kubernetes.io/zone": format!("eu-1{}", ['a', 'b', 'c'][n as usize % 3]),
            },
            "annotations": {
                "flannel.alpha.coreos.com/backend-data": format!("{{\"VNI\":1,\"VtepMAC\":\"{}\"}}", mac(n)),
                "flannel.alpha.coreos.com/backend-type": "vxlan",
                "flannel.alpha.coreos.com/kube-subnet-manager": "true",
                "flannel.alpha.coreos.com/public-ip": address,
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": { "podCIDR": pods, "podCIDRs": [pods], "providerID": format!("metal://eu-1/{name}") },
        "status": {
            "addresses": [{ "type": "InternalIP", "address": address }, { "type": "Hostname", "address": name }],
            "capacity": resources("32", "131806144Ki"),
            "allocatable": resources("31", "130655168Ki"),
            "conditions": conditions(),
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": uuid(n, 2),
                "containerRuntimeVersion": "containerd://1.7.24",
                "kernelVersion": "6.12.48+deb13-amd64",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.34.4",
                "machineID": uuid(n, 3).replace('-', ""),
                "operatingSystem": "linux",
                "osImage": "Debian GNU/Linux 13 (trixie)",
                "systemUUID": uuid(n, 4),
            },
            "images": (0..20).map(|image| image_of(n, image)).collect::<Vec<_>>(),
        },
    })
}

fn resources(cpu: &str, memory: &str) -> Value {
    json!({ "cpu": cpu, "ephemeral-storage": "959786032Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0", "memory": memory, "pods": "110" })
}

fn conditions() -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": "2026-11-15T12:00:00Z",
            "lastTransitionTime": "2026-11-01T09:30:00Z",
        })
    };
    json!([
        condition("NetworkUnavailable", "False", "FlannelIsUp", "Flannel is running on this node"),
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ])
}

fn image_of(n: u32, image: u32) -> Value {
    let part = |part| scatter(n / 50, image * 4 + part);
    let digest = format!("{:016x}{:016x}{:016x}{:016x}", part(0), part(1), part(2), part(3));
    json!({
        "names": [format!("registry.example/team-{}/service-{image}@sha256:{digest}", image % 7), format!("registry.example/team-{}/service-{image}:v1.{image}.0", image % 7)],
        "sizeBytes": 20_000_000 + u64::from(image) * 7_340_032,
    })
}

fn mac(n: u32) -> String {
    let bits = scatter(n, 9);
    let bytes: Vec<String> = (0..5).map(|byte| format!("{:02x}", (bits >> (byte * 8)) & 255)).collect();
    format!("3e:{}", bytes.join(":"))
}

fn uuid(n: u32, which: u32) -> String {
    let (high, low) = (scatter(n, which * 2), scatter(n, which * 2 + 1));
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        low >> 52,
        low & 0xffff_ffff_ffff
    )
}

/// Numbers that look random and are the same every time (the finaliser of splitmix64).
fn scatter(n: u32, which: u32) -> u64 {
    let mut bits = ((u64::from(n) << 32) | u64::from(which)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_nodes_share_what_tells_machines_apart() {
        let all: Vec<Value> = nodes(2000).collect();
        for path in [
            "/metadata/name",
            "/metadata/uid",
            "/status/nodeInfo/machineID",
            "/status/nodeInfo/systemUUID",
            "/status/addresses/0/address",
        ] {
            let seen: BTreeSet<String> = all.iter().map(|node| node.pointer(path).expect(path).to_string()).collect();
            assert_eq!(seen.len(), all.len(), "{path}");
        }
    }

    #[test]
    fn nodes_have_the_size_of_real_ones() {
        let size = node(7).to_string().len();
        assert!((5_000..12_000).contains(&size), "{size} bytes");
    }

    #[test]
    fn a_node_is_the_same_every_time() {
        assert_eq!(node(42), node(42));
    }
}
