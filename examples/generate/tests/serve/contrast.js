// The elements that show text with a contrast below 4.5, as WCAG 2.2 defines it.
const channels = color => color.match(/[\d.]+/g).map(Number);
const luminance = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map(c => c / 255).map(c => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const background = element => {
  for (let e = element; e; e = e.parentElement) {
    const color = channels(getComputedStyle(e).backgroundColor);
    if (color.length === 3 || color[3] > 0) return color;
  }
  return [255, 255, 255];
};
const shown = [...document.querySelectorAll("body *")].filter(element => {
  const text = [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
  return text && element.getClientRects().length > 0 && !element.disabled && element.tagName !== "SCRIPT";
});
const contrast = element => {
  const pair = [channels(getComputedStyle(element).color), background(element)].map(luminance).sort((a, b) => b - a);
  return (pair[0] + 0.05) / (pair[1] + 0.05);
};
return shown.map(e => [e.id || e.className || e.tagName, contrast(e)]).filter(([, value]) => value < 4.5);
