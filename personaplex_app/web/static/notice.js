// What has to be said of the model, two lines of it; a button shows the rest where there is more.
//
// In: the notice as gradio shows it. Out: the same, folded. Must not know: what it says.

import { t } from "./i18n.js";
import { button, part } from "./parts.js";

const text = () => part("notice")?.querySelector(".md");

while (!text()?.textContent.trim()) await new Promise((resolve) => setTimeout(resolve, 50));

const more = button("", () => show(part("notice").dataset.open !== "true"), { id: "notice-more" });

function show(open) {
  part("notice").dataset.open = open;
  more.textContent = open ? t("Less") : t("More");
  more.setAttribute("aria-expanded", open);
}

// Only where two lines are too few; a page that is made wider may need no button any more.
function fit() {
  if (part("notice").dataset.open === "true") return;
  more.hidden = text().scrollHeight <= text().clientHeight + 2;
}

show(false);
part("notice").append(more);
fit();
new ResizeObserver(fit).observe(part("notice"));
