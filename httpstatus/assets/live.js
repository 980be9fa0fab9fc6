// What follows makes the pages live: a stream of events fills the feed, and the parts of the page
// that are marked data-live are fetched again when something has changed. Without it every page is
// whole, and shows the moment at which it was loaded.

const rowsMax = 200;       // events that the feed keeps
const soonest = 1000;      // ms between two fetches of the page
const latest = 5000;       // ms after which the page is fetched though nothing was heard

const feed = document.getElementById("feed");
const mark = document.getElementById("live");
let due = 0;               // timer of the next fetch
let fetched = Date.now();

// refresh replaces the live parts. Text is only ever parsed by the browser into a document of its
// own, in which nothing runs.
async function refresh() {
  due = 0;
  fetched = Date.now();
  if (document.hidden) return;
  try {
    const address = new URL(location.href);
    address.searchParams.delete("done");
    const answer = await fetch(address, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(10000) });
    if (!(answer.headers.get("Content-Type") || "").startsWith("text/html")) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(part.id);
      if (other && other.innerHTML !== part.innerHTML) replace(part, other);
    }
    document.body.classList.remove("lost");
  } catch {
    document.body.classList.add("lost");
  }
}

// replace keeps the focus, the selection of text, and how far tables were scrolled.
function replace(part, other) {
  const selection = getSelection();
  if (!selection.isCollapsed && part.contains(selection.anchorNode)) return;
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const scrolled = [...part.querySelectorAll(".scroll")].map((e) => e.scrollLeft);
  part.replaceChildren(...[...other.childNodes].map((n) => document.adoptNode(n)));
  part.querySelectorAll(".scroll").forEach((e, i) => { e.scrollLeft = scrolled[i] || 0; });
  if (!focused) return;
  const href = focused.getAttribute("href");
  const same = [...part.querySelectorAll(focused.tagName)].find((e) => e.getAttribute("href") === href);
  if (same) same.focus({ preventScroll: true });
}

function soon() {
  if (!due) due = setTimeout(refresh, Math.max(0, soonest - (Date.now() - fetched)));
}

setInterval(() => { if (Date.now() - fetched >= latest) refresh(); }, 1000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) soon(); });

function element(tag, text, name) {
  const e = document.createElement(tag);
  e.textContent = text;
  if (name) e.className = name;
  return e;
}

// row is one event as a line of the feed.
function row(e) {
  const line = document.createElement("li");
  line.append(element("time", new Date().toISOString().slice(11, 19), "dim"), element("span", e.kind, "how " + e.kind));
  const what = element("span", "", "what");
  if (e.name !== "") {
    const name = element("a", "");
    name.href = "lock?name=" + encodeURIComponent(e.name);
    name.append(element("bdi", e.name));
    what.append(name);
  }
  if (e.act) what.append(" ", element("span", e.act + " at " + e.by.slice(0, 8)));
  const by = e.node || e.node_id.slice(0, 8);
  if (by) what.append(" ", element("bdi", by));
  if (e.label) what.append(" ", element("bdi", e.label, "label"));
  if (e.reason && e.reason !== e.kind) what.append(" ", element("bdi", e.reason, "dim"));
  line.append(what);
  return line;
}

function show(line) {
  if (!feed) return;
  document.getElementById("feed-empty").hidden = true;
  feed.prepend(line);
  while (feed.childElementCount > rowsMax) feed.lastElementChild.remove();
}

function remark(text) {
  const line = element("li", "", "remark");
  line.append(element("time", new Date().toISOString().slice(11, 19), "dim"), element("span", text));
  show(line);
}

function follow() {
  const address = new URL("api/events", location.href);
  if (feed?.dataset.prefix) address.searchParams.set("prefix", feed.dataset.prefix);
  if (feed?.dataset.name) address.searchParams.set("name", feed.dataset.name);
  const stream = new EventSource(address);
  stream.addEventListener("open", () => { mark.hidden = false; });
  stream.addEventListener("lock", (m) => { show(row(JSON.parse(m.data))); soon(); });
  stream.addEventListener("state", soon);
  stream.addEventListener("missed", (m) => { remark(JSON.parse(m.data).events + " more events"); soon(); });
  stream.addEventListener("end", (m) => { remark("the stream has ended: " + JSON.parse(m.data).error); });
  stream.addEventListener("error", () => {
    mark.hidden = true;
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 10000); // refused: there are many streams
  });
}

// "/" goes to the search, as on other pages of this kind.
document.addEventListener("keydown", (e) => {
  const typing = e.target.closest("input, select, textarea");
  if (e.key === "/" && !typing && !e.ctrlKey && !e.metaKey && !e.altKey) {
    const search = document.querySelector("input[type=search]");
    if (search) { e.preventDefault(); search.focus(); search.select(); }
  }
});

follow();
