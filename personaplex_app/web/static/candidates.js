// Which way a peer connection's packets go.

// Whether the pair of candidates in use goes through a relay at either end.
export async function isRelayed(peer) {
  const all = new Map();
  (await peer.getStats()).forEach((entry) => all.set(entry.id, entry));
  const transport = [...all.values()].find((entry) => entry.type === "transport" && entry.selectedCandidatePairId);
  if (!transport) return false;
  const pair = all.get(transport.selectedCandidatePairId);
  const ends = [all.get(pair.localCandidateId), all.get(pair.remoteCandidateId)];
  return ends.some((end) => end && end.candidateType === "relay");
}
