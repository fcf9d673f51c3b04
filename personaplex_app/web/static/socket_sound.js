// A talk's sound on the page's side: opens the microphone and the loudspeaker, PCM16 at 24 kHz both ways.
//
// start({constraints, microphone, base, send, onReport, onEnded}) -> {play(arrayBuffer), mute(on), stop(), running}
// constraints: getUserMedia's, or their audio part; its errors come through unchanged, and so do the audio context's.
// microphone: opens the stream in getUserMedia's place, where whoever calls has a way of its own.
// base: the address of the folder that holds the worklet's files; this file's own where left out.
// send: gets an ArrayBuffer for every 20 ms that are said; silence while muted.
// onReport: gets {played, filled, torn, shed_ms, added_ms, dropped_ms, prebuffer_ms, waiting_ms, level,
//   microphone_level} five times a second. onEnded: called when the microphone is taken away.
// running: false where the browser wants a click or a key before it plays. stop gives the microphone back.
// Must not know: sockets, gradio, what is talked about.

const RATE_HZ = 24000;
const MODULES = ["resample.js", "waiting_sound.js", "playout.js", "voice_worklet.js"];
const WAKING = ["pointerdown", "keydown", "visibilitychange"];
const INSECURE = "The microphone needs a secure page: open it over https, or on this machine as localhost.";

export async function start({ constraints = {}, microphone, base = import.meta.url, send, onReport, onEnded }) {
  if (!navigator.mediaDevices) throw new DOMException(INSECURE, "NotSupportedError");
  const wish = "audio" in constraints ? constraints : { audio: constraints };
  const stream = await (microphone ? microphone() : navigator.mediaDevices.getUserMedia(wish));
  let graph;
  try {
    graph = await open(stream, base);
  } catch (error) {
    release(stream);
    throw error;
  }
  listen(graph, send, onReport);
  const forget = keepAwake(graph.context);
  for (const track of stream.getTracks()) track.onended = () => onEnded?.();
  let closing;
  return {
    play: (sound) => graph.ear.port.postMessage(sound),
    mute: (on) => stream.getAudioTracks().forEach((track) => (track.enabled = !on)),
    stop: () => (closing ??= (forget(), close(graph, stream))),
    get running() {
      return graph.context.state === "running";
    },
  };
}

async function open(stream, base) {
  const { context, microphone } = await openContext(stream);
  try {
    return { context, microphone, ...(await connect(context, microphone, base)) };
  } catch (error) {
    await context.close();
    throw error;
  }
}

// Firefox cannot join a microphone to a context of another rate: there the worklets change the rate themselves.
async function openContext(stream) {
  let refused;
  for (const wish of [{ sampleRate: RATE_HZ }, {}]) {
    let context;
    try {
      context = new AudioContext({ latencyHint: "interactive", ...wish });
      return { context, microphone: context.createMediaStreamSource(stream) };
    } catch (error) {
      refused = error;
      await context?.close();
    }
  }
  throw refused;
}

async function connect(context, microphone, base) {
  const folder = base.endsWith(".js") ? base : base.replace(/\/?$/, "/");
  for (const name of MODULES) await context.audioWorklet.addModule(new URL(name, new URL(folder, document.baseURI)));
  const mono = { numberOfOutputs: 1, outputChannelCount: [1], channelCount: 1, channelCountMode: "explicit" };
  const ear = new AudioWorkletNode(context, "personaplex-ear", { ...mono, numberOfInputs: 0 });
  const mouth = new AudioWorkletNode(context, "personaplex-mouth", { ...mono, numberOfInputs: 1 });
  ear.connect(context.destination);
  microphone.connect(mouth);
  mouth.connect(context.destination); // silent; a node that leads nowhere need not run
  return { ear, mouth };
}

function listen({ ear, mouth }, send, onReport) {
  let loudest = 0;
  mouth.port.onmessage = ({ data }) => {
    loudest = Math.max(loudest, data.level);
    send(data.sound);
  };
  ear.port.onmessage = ({ data }) => {
    onReport?.({ ...data, microphone_level: loudest });
    loudest = 0;
  };
}

// A context that the browser has put to sleep goes on at the next sign of life; returns what ends that.
function keepAwake(context) {
  const wake = () => {
    if (context.state !== "running" && context.state !== "closed") context.resume().catch(() => {});
  };
  wake();
  WAKING.forEach((sign) => document.addEventListener(sign, wake));
  return () => WAKING.forEach((sign) => document.removeEventListener(sign, wake));
}

async function close(graph, stream) {
  for (const node of [graph.ear, graph.mouth]) {
    node.port.onmessage = null;
    node.port.postMessage("stop");
    node.disconnect();
  }
  graph.microphone.disconnect();
  release(stream);
  if (graph.context.state !== "closed") await graph.context.close();
}

function release(stream) {
  for (const track of stream.getTracks()) {
    track.onended = null;
    track.stop();
  }
}

window.personaplexSound = { start };
