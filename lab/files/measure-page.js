// What is wrong with a page as it is shown: given to the browser by the case, never part of the page.
(width) => {
  const wrong = [];
  const name = (element) => `<${element.tagName.toLowerCase()} class="${element.getAttribute("class") ?? ""}"> `
    + JSON.stringify((element.textContent ?? "").trim().slice(0, 40));
  const shown = (element) => element.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true });
  const close = 1; // Pixels: what rounding may do.

  // The page does not scroll sideways; only commands do, within themselves.
  if (document.documentElement.scrollWidth > width) {
    wrong.push(`wide: the page is ${document.documentElement.scrollWidth} wide, not ${width}`);
  }
  for (const element of document.querySelectorAll("body *")) {
    if (!shown(element) || element.closest("pre.command code")) continue;
    const { left, right } = element.getBoundingClientRect();
    if (left < -close || right > width + close) wrong.push(`wide: ${name(element)} from ${left} to ${right}`);
  }

  // In a picture, text stays in its box, is big enough, and covers no other text.
  const inside = (inner, outer) => inner.left >= outer.left - close && inner.right <= outer.right + close
    && inner.top >= outer.top - close && inner.bottom <= outer.bottom + close;
  for (const picture of [...document.querySelectorAll("svg[role=img]")].filter(shown)) {
    const texts = [...picture.querySelectorAll("text")].map((text) => [text, text.getBoundingClientRect()]);
    for (const [text, place] of texts) {
      const box = text.closest(".node")?.querySelector(".box") ?? picture;
      if (!inside(place, box.getBoundingClientRect())) wrong.push(`box: ${name(text)} is outside of it`);
      const size = parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().d;
      if (!text.hasAttribute("transform") && size < 9) wrong.push(`small: ${name(text)} is ${size} px`);
    }
    texts.forEach(([one, a], n) => texts.slice(n + 1).forEach(([other, b]) => {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      // Lines of text may touch: letters are lower than their line.
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > close && down > 3) wrong.push(`covered: ${name(one)} and ${name(other)}`);
    }));
  }

  // WCAG AA: text stands out 4.5 to 1.
  const colour = (words) => (words.match(/[\d.]+/g) ?? []).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const opaque = (words) => words !== "none" && !(colour(words).length === 4 && colour(words)[3] === 0);
  const behind = (element) => {
    if (element.tagName === "text") {
      const shape = element.parentElement.querySelector(":scope > .mark, :scope > .box, :scope > .silence");
      const fill = shape && getComputedStyle(shape).fill;
      if (fill && opaque(fill)) return colour(fill);
    }
    for (let one = element; one; one = one.parentElement) {
      const background = getComputedStyle(one).backgroundColor;
      if (opaque(background)) return colour(background);
    }
    return [255, 255, 255];
  };
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const element = words.currentNode.parentElement;
    if (!words.currentNode.data.trim() || !shown(element) || element.closest("title, desc, style, script")) continue;
    const style = getComputedStyle(element);
    const front = colour(element.closest("text") ? style.fill : style.color);
    const stands = ratio(front, behind(element));
    if (stands < 4.5) wrong.push(`pale: ${name(element)} stands out ${stands.toFixed(2)} to 1`);
  }

  // On paper everything is unfolded, and the paper is white.
  if (matchMedia("print").matches) {
    for (const fold of document.querySelectorAll("details")) {
      if (!shown(fold.lastElementChild)) wrong.push(`folded: ${name(fold)}`);
    }
    const paper = getComputedStyle(document.body).backgroundColor;
    if (paper !== "rgb(255, 255, 255)") wrong.push(`paper: it is ${paper}`);
  }
  return wrong.slice(0, 20);
}
