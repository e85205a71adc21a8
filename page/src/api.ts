// What the service sends to the page. Agreed with the service: field names are camelCase on the wire, and missing
// optional fields mean "nothing". Every sentence is one that the command line prints.

// GET /v1/page/cluster   (ETag by version, gzip). Also the first event of the stream.
// GET /v1/page/stream    text/event-stream: `event: cluster` (a whole Cluster, at connect, when ?since= is unknown, or after an overflow),
//                        `event: change` (Change), comment lines as heartbeat every 15 s, `event: bye` {reason} before an orderly end.
// Every sentence is one that the command line prints.
export interface Cluster {
  version: string            // opaque: compares equal or not
  at: string                 // RFC 3339, when it was computed
  reader: Reader
  totals: Totals
  models: ModelFit[]         // "pods that would still fit, by number of devices", per model
  nodes: NodeStrip[]         // only nodes with devices, by name
  waiting: Waiting[]
  notes: string[]            // sentences about the whole: still listing the cluster, not the leader, hidden namespaces
}
export interface Reader { everywhere: boolean; namespaces: string[] }   // whose pods are named; others are held with pod ""
export interface Totals { devices: number; inUse: number; idle: number; reserved: number; unusable: number; waitingPods: number }
export interface ModelFit { model: string; nodes: number; devices: number; free: number; largest: number; fits: Record<string, number> } // fits: {"1": 20, "2": 10, "4": 5, "8": 2}
export interface NodeStrip {
  name: string; model: string; rack: string       // rack: closest known network domain, "" if unknown
  marks: string              // a letter per device: "." usable, "x" unhealthy, "c" cordoned
  held: Held[]
  mode: string               // any | whole | memory | percent
  note: string               // problems, "" if none
  indices?: number[]         // numbers of the devices, unless they are 0, 1, 2, ...
}
export interface Held {
  pod: string                // "namespace/name"; "" for a pod of namespaces that the reader may not see
  group: string              // "namespace/name" of its group, ""
  state: "bound" | "binding" | "terminating" | "planned" | "offered" | "reserved" | "claimed"
  devices: number[]          // positions in marks
  part?: number              // percent of each device, if less than 100
}
export interface Waiting { kind: "pod" | "group"; namespace: string; name: string; pods: number; devices: number; sentence: string; code: string; since: string }
export interface Change {
  version: string; at: string
  totals?: Totals; models?: ModelFit[]; waiting?: Waiting[]; notes?: string[]
  nodes?: NodeStrip[]; gone?: string[]     // replaced whole, by name; names of nodes that are gone
}

// GET /v1/page/nodes/{name}
export interface NodePage {
  name: string; model: string; address: string; mode: string; allocator: string
  headline: string; lines: string[]        // as `linkwise explain node/NAME` prints them, without the drawing
  problems: string[]
  devices: DeviceDetail[]
  links: Links | null                      // null: no link data
  sizes: number[]                          // numbers of whole devices that one pod could get now
  fits: string                             // the sentence about what still fits
}
export interface DeviceDetail {
  index: number; id: string; model: string; state: string; health: string; fault: string; cordon: string
  memory: number; used: number; unit: string; numa: number | null; bus: string
  pods: { pod: string; text: string; state: string }[]     // text: with its share
  usage: { compute: number | null; memory: number | null } | null   // percent
}
export interface Links {
  measured: boolean
  kinds: { code: string; name: string; gbps: number | null; direct: boolean }[]  // fastest first: the legend; gbps typical, or the median of the samples
  pairs: [number, number, number, number | null][]   // positions i < j, index into kinds, GB/s (sample, or typical)
  layout: Layout
  matrix: string[][]; worth: number[][]              // texts and values of the table
}
export interface Layout { shape: "hub" | "rings" | "quads" | "pairs" | "islands" | "tree"; groups: number[][]; hub: string; numa: number[][]; switches: number[][] }

// GET /v1/page/pods/{namespace}/{name}
export interface PodPage {
  namespace: string; name: string; state: string; code: string; group: string
  request: string; policy: string
  headline: string; lines: string[]; notes: string[]     // lines: all that `linkwise explain pod/NAME` prints
  remarks: string[]                                      // those of them about its state that belong to no part below
  placed: { node: string; devices: number[]; certainty: string; reasons: string[]; slowest: string
            runnerUp: { devices: number[]; sentence: string } | null; nextNode: { node: string; sentence: string } | null } | null
  waiting: { nodes: number; fitting: number
             against: { code: string; count: number; text: string; temporary: boolean; nearest: string; sentence: string }[]
             remedies: { title: string; node: string; pods: { pod: string; text: string }[] }[]
             unresolved: string       // that no pods were found whose end would help
             holders: { pod: string; node: string; devices: number; text: string }[]
             victims: { sentence: string; pods: { pod: string; text: string }[] } | null } | null
}
// GET /v1/page/groups/{namespace}/{name}
export interface GroupPage {
  namespace: string; name: string; source: string; stage: string; code: string
  headline: string; lines: string[]; notes: string[]
  remarks: string[]
  members: { pod: string; state: string; node: string; devices: number[]; asks: number; slowest: number | null }[]
  missing: number
  hosts: { node: string; members: number; devices: number[]; slowest: number | null }[]
  levels: { name: string; value: string }[]
  heldSeconds: number; slowest: string; lacks: string[]
  fitting: number          // nodes that can take a member
  against: { code: string; count: number; text: string; temporary: boolean; nearest: string; sentence: string }[]
  remedies: { title: string; nodes: string[]; pods: { pod: string; text: string }[] }[]
  unresolved: string
}
// POST /v1/page/plan   body: the manifest's text (application/yaml). 200 always for a readable request; nothing is created.
export interface PlanPage {
  errors: { line: number; column: number; sentence: string }[]
  headline: string; lines: string[]
  places: { pod: string; node: string; devices: number[] }[]
  groups: GroupPage[]; pods: PodPage[]
}
// GET /v1/tables/usage|capacity|policy ...: the tables that `linkwise get` prints (exists already).
// Errors of all routes: status and one sentence as text/plain (401, 403, 404, 503), as the tenants' routes answer today.
